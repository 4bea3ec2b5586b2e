"""Descriptions of the service: OpenAPI, the page ``/docs``, probes and capabilities."""
