"""What all routes share: the server object, page templates, error responses and CORS."""
