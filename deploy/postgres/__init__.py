"""The embedded PostgreSQL: its binaries, its user, its process."""
