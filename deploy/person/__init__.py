"""A person's own commands in a terminal: an OAuth client that reads the REST API with a token of its own."""
