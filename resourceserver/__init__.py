"""The resource server: endpoints that read a person's data, and ingest for trackers."""
