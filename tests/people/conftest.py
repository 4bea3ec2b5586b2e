"""The fixtures of tests/oauth, for tests of people and sign-in."""

from tests.oauth.conftest import (
    alice_browser,
    application,
    auth_client,
    password_hash,
    register,
    server,
    settings,
    status,
    terminal,
    visitor,
    welcome,
)

__all__ = [
    "alice_browser",
    "application",
    "auth_client",
    "password_hash",
    "register",
    "server",
    "settings",
    "status",
    "terminal",
    "visitor",
    "welcome",
]
