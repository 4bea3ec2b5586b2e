"""The console script, the local runner with its embedded PostgreSQL, migrations, and operators' commands."""
