"""What both servers share: token format, scope names, settings, the query loader, web plumbing."""

VERSION = "1.0.0"
