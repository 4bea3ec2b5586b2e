"""The Model Context Protocol endpoint: how an assistant asks questions about its person's own life."""
