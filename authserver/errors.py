"""The errors that the authorization server sends to clients.

    OAuthError                       error                      may go to the redirect URI
    ├── InvalidRequest               invalid_request            yes
    │   ├── UnusableRedirectURI                                 no
    │   ├── PayloadTooLarge          413                        no
    │   ├── BodyTooSlow              408                        no
    │   ├── HeadTooSlow              408                        no
    │   ├── HeadersTooLarge          431                        no
    │   ├── HostUnclear, NotHTTP                                no
    │   ├── MethodUnknown            501                        no
    │   └── MethodNotAllowed         405                        no
    ├── InvalidClient                invalid_client, 401        no
    │   ├── UnknownClient, UnusableDocument
    │   └── ClientAuthenticationRefused
    ├── InvalidGrant                 invalid_grant              (never arises there)
    │   ├── CodeUnknown, CodeSpent, CodeExpired, CodeOfAnotherClient
    │   ├── RedirectURIMismatch, VerifierMismatch, GrantRevoked
    │   ├── RefreshTokenUnknown, RefreshTokenRotated, RefreshTokenExpired, ...
    │   └── DeviceCodeUnknown, DeviceCodeSpent, DeviceCodeOfAnotherClient
    ├── UnauthorizedClient           unauthorized_client        (devices alone)
    ├── AuthorizationPending         authorization_pending      (RFC 8628, section 3.5)
    ├── SlowDown                     slow_down
    ├── ExpiredToken                 expired_token
    ├── InvalidScope                 invalid_scope              yes
    │   └── ScopeWidened
    ├── InvalidTarget                invalid_target             yes
    │   └── ResourceMismatch
    ├── UnsupportedGrantType         unsupported_grant_type
    ├── UnsupportedResponseType      unsupported_response_type  yes
    ├── AccessDenied                 access_denied              yes
    ├── InvalidRedirectURI           invalid_redirect_uri       (registration)
    ├── InvalidClientMetadata        invalid_client_metadata    (registration)
    ├── NotFound                     not_found, 404
    ├── TooManyRequests              temporarily_unavailable, 429
    ├── TemporarilyUnavailable       temporarily_unavailable, 503
    │   ├── ServerFull
    │   └── OutdatedServer           outdated_server
    └── ServerError                  server_error, 500

The docstring of a class is its default ``error_description``. Errors are raised where the problem is
found, and become responses in one place: JSON here, a page in ``web.failures``, and a redirect to the
client in ``oauth.authorize``.
"""

import json
import re
from collections.abc import Mapping
from typing import ClassVar, Final

from starlette.responses import Response

_NOT_ALLOWED = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")


class OAuthError(Exception):
    """Something is wrong with the request."""

    error: ClassVar[str] = "invalid_request"
    status: ClassVar[int] = 400
    may_redirect: ClassVar[bool] = True
    """Whether the authorization endpoint may send it to the redirect URI of the request."""
    retry_after_s: int | None = None
    """After how many seconds the client may retry, if known."""

    def __init__(self, description: str | None = None, *, parameter: str | None = None) -> None:
        """Store the description, reduced to the characters that RFC 6749, section 5.2 allows.

        ``parameter`` is the parameter whose value is wrong, for pages, which show the value.
        """
        self.parameter = parameter
        text = description or " ".join((self.__doc__ or "").split())
        self.description = _NOT_ALLOWED.sub("?", text)[:500]
        super().__init__(self.description)


class InvalidRequest(OAuthError):
    """A parameter is missing or malformed."""


class UnusableRedirectURI(InvalidRequest):
    """The redirect_uri is not one that the client has registered."""

    may_redirect = False


class PayloadTooLarge(InvalidRequest):
    """The body is larger than 64 KiB."""

    status = 413
    may_redirect = False


class BodyTooSlow(InvalidRequest):
    """The body did not arrive in time."""

    status = 408
    may_redirect = False


class HeadersTooLarge(InvalidRequest):
    """The headers are larger than 32 KiB."""

    status = 431
    may_redirect = False


class HostUnclear(InvalidRequest):
    """The request needs one Host header."""

    may_redirect = False


class NotHTTP(InvalidRequest):
    """The request is not valid HTTP/1.1."""

    may_redirect = False


class MethodUnknown(InvalidRequest):
    """This method is not known here."""

    status = 501
    may_redirect = False


class HeadTooSlow(InvalidRequest):
    """The request line and the headers did not arrive in time."""

    status = 408
    may_redirect = False


class MethodNotAllowed(InvalidRequest):
    """This method is not allowed here."""

    status = 405
    may_redirect = False


class InvalidClient(OAuthError):
    """The client is not known."""

    error = "invalid_client"
    status = 401
    may_redirect = False


class UnknownClient(InvalidClient):
    """The client_id is not one that was registered here."""


class UnusableDocument(InvalidClient):
    """The document that the client_id names cannot be used."""


class ClientAuthenticationRefused(InvalidClient):
    """Clients of this server are public: send client_id in the body and no Authorization header."""


class InvalidGrant(OAuthError):
    """The code or refresh token cannot be used."""

    error = "invalid_grant"


class CodeUnknown(InvalidGrant):
    """The code is not one that was issued here."""


class CodeSpent(InvalidGrant):
    """The code was used before; everything that was granted by it has been revoked."""


class CodeExpired(InvalidGrant):
    """The code has expired."""


class CodeOfAnotherClient(InvalidGrant):
    """The code was issued to another client."""


class RedirectURIMismatch(InvalidGrant):
    """The redirect_uri differs from that of the authorization request."""


class VerifierMismatch(InvalidGrant):
    """The code_verifier does not match the code_challenge of the authorization request."""


class GrantRevoked(InvalidGrant):
    """The grant has been revoked."""


class RefreshTokenUnknown(InvalidGrant):
    """The refresh_token is not one that was issued here."""


class RefreshTokenRotated(InvalidGrant):
    """The refresh_token was used before; everything that was granted by it has been revoked."""


class RefreshTokenExpired(InvalidGrant):
    """The refresh_token has expired."""


class RefreshTokenOfAnotherClient(InvalidGrant):
    """The refresh_token was issued to another client."""


class UnauthorizedClient(OAuthError):
    """The client has not registered the grant type of devices."""

    error = "unauthorized_client"


class DeviceCodeUnknown(InvalidGrant):
    """The device_code is not one that was issued here."""


class DeviceCodeSpent(InvalidGrant):
    """The device_code was used before, or its grant has been revoked."""


class DeviceCodeOfAnotherClient(InvalidGrant):
    """The device_code was issued to another client."""


class AuthorizationPending(OAuthError):
    """The user has not decided yet."""

    error = "authorization_pending"


class SlowDown(OAuthError):
    """The user has not decided yet; wait 5 seconds longer between requests from now on."""

    error = "slow_down"


class ExpiredToken(OAuthError):
    """The device_code has expired."""

    error = "expired_token"


class InvalidScope(OAuthError):
    """The scope is not one of this service."""

    error = "invalid_scope"


class InvalidTarget(OAuthError):
    """The resource is not one of this service."""

    error = "invalid_target"


class ScopeWidened(InvalidScope):
    """The scope is wider than that of the grant."""


class ResourceMismatch(InvalidTarget):
    """The resource differs from the one that was authorized."""


class UnsupportedGrantType(OAuthError):
    """The grant_type is not one of grant_types_supported in the metadata of the server."""

    error = "unsupported_grant_type"


class UnsupportedResponseType(OAuthError):
    """The response_type must be code."""

    error = "unsupported_response_type"


class AccessDenied(OAuthError):
    """The user declined."""

    error = "access_denied"


class InvalidRedirectURI(OAuthError):
    """A redirect URI cannot be registered."""

    error = "invalid_redirect_uri"


class InvalidClientMetadata(OAuthError):
    """The client metadata cannot be registered."""

    error = "invalid_client_metadata"


class NotFound(OAuthError):
    """There is nothing here."""

    error = "not_found"
    status = 404


class TooManyRequests(OAuthError):
    """There were too many requests of this kind; wait before the next one."""

    # No registered error code means this, and clients that know this code retry.
    error = "temporarily_unavailable"
    status = 429
    may_redirect = False

    def __init__(self, retry_after_s: int, limit: str) -> None:
        """Store after how many seconds to retry, at least 1, and the limit for metrics."""
        super().__init__()
        self.retry_after_s = retry_after_s
        self.limit = limit


class TemporarilyUnavailable(OAuthError):
    """The service cannot answer now; try again."""

    error = "temporarily_unavailable"
    status = 503
    retry_after_s = 1


class ServerFull(TemporarilyUnavailable):
    """Too many connections are open; try again in a while."""


class OutdatedServer(TemporarilyUnavailable):
    """This server is older than the database; try again in a while."""

    error = "outdated_server"


class ServerError(OAuthError):
    """Something went wrong on our side; the X-Request-Id header names it in our log."""

    error = "server_error"
    status = 500


UNREADABLE: Final[Mapping[int, type[OAuthError]]] = {
    each.status: each for each in (NotHTTP, HeadTooSlow, HeadersTooLarge, MethodUnknown, ServerFull)
}
"""The errors of requests that the web server refuses, by status."""


def retry_after(error: OAuthError) -> dict[str, str]:
    """Return the Retry-After header, if the time is known (RFC 9110, section 10.2.3)."""
    return {} if error.retry_after_s is None else {"Retry-After": str(error.retry_after_s)}


def answer(error: OAuthError, headers: dict[str, str] | None = None) -> Response:
    """Return ``error`` as the JSON body of RFC 6749, section 5.2."""
    extra = {"Cache-Control": "no-store"} | retry_after(error) | (headers or {})
    if isinstance(error, InvalidClient):
        # Every 401 must name a scheme (RFC 9110, section 15.5.2; RFC 6749, section 5.2).
        extra["WWW-Authenticate"] = 'Basic realm="svc"'
    body = json.dumps({"error": error.error, "error_description": error.description})
    return Response(body, error.status, extra, media_type="application/json")
