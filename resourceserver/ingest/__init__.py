"""Ingest: what trackers may send, and the transaction that writes it."""
