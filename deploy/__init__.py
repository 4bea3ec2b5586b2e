"""Running it: the console script, the local runner with its embedded PostgreSQL, and migrations."""
