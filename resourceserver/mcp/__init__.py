"""The Model Context Protocol endpoint, with which an assistant reads the data of its person."""
