"""What the pages of both servers have in common: layout, style sheet, headers, and the text of instants."""
