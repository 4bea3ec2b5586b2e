"""Signing in to the dashboard: an OAuth client of the authorization server, and its sealed cookies."""
