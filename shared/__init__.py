"""What both servers share: token format, scope names, settings, the query loader, web plumbing."""

from typing import Final

VERSION: Final = "1.0.0"
"""The release: what `svc --version`, `/healthz` and MCP's serverInfo name."""

API_VERSION: Final = "1.0.0"
"""What clients are written against: the OpenAPI description, the capabilities and what trackers may send. A
release that changes nothing for clients leaves it as it is."""

SCHEMA_VERSION: Final = 23
"""The number of the newest migration that the code is written for (sql/migrations). Every session, job and
statement brings it along, and the database refuses it where it does not fit the schema
(sql/functions/versions.sql)."""
