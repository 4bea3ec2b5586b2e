"""The dashboard: pages on which people look at their own data, with the numbers of the API."""
