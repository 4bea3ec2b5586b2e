"""The dashboard as an OAuth client: what both servers have to know about it.

`svc migrate` stores the client under this id. No registration can produce the id: new ids are random numbers
of 128 bits, and this one stands for a larger number.
"""

from typing import Final

DASHBOARD_CLIENT_ID: Final = "svc_client_dashboard0000000000000"
CLIENT_NAME: Final = "This service's own pages"
SIGNED_IN_PATH: Final = "/signed-in"
"""The path of the resource server to which the authorization server redirects."""
SIGNED_OUT_IMAGE_PATH: Final = "/signed-out.svg"
"""The path of the resource server with an image whose answer removes the pages that the browser has kept."""


def redirect_uri(base_url: str) -> str:
    """Return the only redirect URI of the client, for a resource server at ``base_url``."""
    return f"{base_url}{SIGNED_IN_PATH}"
