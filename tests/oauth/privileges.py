"""Temporary removal of privileges of the authorization server's role."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg


@contextmanager
def without(owner: psycopg.Connection[Any], privilege: LiteralString) -> Iterator[None]:
    """Take a privilege, such as "delete on oauth.grant", from the server's role until the block ends."""
    owner.execute(f"revoke {privilege} from svc_authserver")
    try:
        yield
    finally:
        owner.execute(f"grant {privilege} to svc_authserver")
