"""Every read endpoint of the service, in the order in which the description lists them."""

from typing import Final

from resourceserver.endpoint import Endpoint
from resourceserver.endpoints import activity, profile, sessions

ENDPOINTS: Final[list[Endpoint]] = [
    *activity.ENDPOINTS,
    *sessions.ENDPOINTS,
    *profile.ENDPOINTS,
]
