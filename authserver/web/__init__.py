"""What every route is given and how it answers: the server, pages and their templates, failures."""
