"""The description of the service: for programs (OpenAPI), for people, and of this deployment."""
