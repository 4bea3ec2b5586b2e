"""Uploads of files that people already have: received with a ticket, kept until the worker imports them."""
