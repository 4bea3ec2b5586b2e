"""Ingest: the events of trackers, their validation, and the transaction that writes them."""
