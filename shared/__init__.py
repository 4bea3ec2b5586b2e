"""Modules of both servers: token format, scope names, settings, the query loader, web plumbing."""

from typing import Final

VERSION: Final = "1.0.0"
"""The release, as `svc --version`, `/healthz` and MCP's serverInfo name it."""

API_VERSION: Final = "1.0.0"
"""The version that clients depend on: of the OpenAPI description, the capabilities and the events of
trackers. A release that changes nothing for clients leaves it as it is."""

SCHEMA_VERSION: Final = 52
"""The number of the newest migration that the code is written for (sql/migrations). Every session, job and
statement sends it, and the database refuses a version that does not fit the schema
(sql/functions/versions.sql)."""

PRODUCT: Final = "Personal Activity Analytics"
"""The name of the service on its pages, and in what browsers and authenticators store of it."""
