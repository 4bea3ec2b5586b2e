"""Backups of the database, and their restoration into an empty one."""
