"""What all routes share: the server object, page templates and error responses."""
