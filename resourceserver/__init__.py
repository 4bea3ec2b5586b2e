"""The resource server: a person's data to read, and trackers' measurements to take in."""
