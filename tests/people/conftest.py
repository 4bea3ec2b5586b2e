"""People and how they sign in, asked as the authorization server's tests ask it."""

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
