"""The client for the OpenID Connect provider through which people may sign in (OpenID Connect Core 1.0,
section 3.1; Discovery 1.0; RFC 9700), and the check of the logouts that it announces (Back-Channel Logout
1.0).

The provider's metadata and keys are fetched at the first use and cached for an hour. An ID token with an
unknown key makes it fetch the keys again, at most once a minute: so the provider can rotate its keys at any
time, and forged tokens cannot make it send many requests.

Responses of the provider are untrusted: one that is too long, malformed or late fails the sign-in. The log
names the reason in the service's words and never contains what the provider sent.
"""

import asyncio
import hashlib
import logging
import re
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic, time
from typing import Annotated, Any, Final, Generic, TypeVar
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx2
from httpx2 import AsyncClient, Limits, Request, Timeout
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key
from joserfc.jws import JWSRegistry
from joserfc.jwt import JWTClaimsRegistry
from pydantic import BaseModel, Field, StrictBool, StrictStr, TypeAdapter, ValidationError

from authserver.people.external_sign_ins import (
    Attempt,
    Logout,
    Proof,
    ProviderDown,
    ProviderFailed,
)
from shared import settings

log = logging.getLogger("svc.provider")

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512"),
    *("PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512"),
    "Ed25519",
)
"""The accepted signature algorithms of ID tokens: asymmetric ones only."""
SCOPE: Final = "openid email"

_MAX_ANSWER_BYTES: Final = 256 * 1024
TOTAL_TIMEOUT_S: Final = 8.0
"""The time limit for a whole exchange, from the first byte sent to the last byte received."""
_TIMEOUT: Final = Timeout(5.0, connect=3.0)
_LIMITS: Final = Limits(max_connections=16, max_keepalive_connections=4, keepalive_expiry=30)
_CACHE_S: Final = 3600.0
_MIN_KEY_AGE_S: Final = 60.0

_CLOCK_SKEW_S: Final = 60
_MAX_ID_TOKEN_AGE_S: Final = 600
MAX_LOGOUT_TOKEN_AGE_S: Final = 600
_LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"

# A request with max_age makes the provider send auth_time, which every provider must support (OpenID Connect
# Core 1.0, sections 2 and 15.1), unlike the `claims` parameter. The value is too long to force another
# sign-in, and short enough for providers that add it to the current time in 32 bits.
_MAX_AGE_S: Final = 365 * 24 * 3600

T = TypeVar("T")


class _Metadata(BaseModel):
    """The metadata of a provider (OpenID Connect Discovery 1.0, section 3)."""

    issuer: StrictStr
    authorization_endpoint: StrictStr
    token_endpoint: StrictStr
    jwks_uri: StrictStr
    userinfo_endpoint: StrictStr | None = None
    token_endpoint_auth_methods_supported: list[StrictStr] = ["client_secret_basic"]
    authorization_response_iss_parameter_supported: StrictBool = False


class _Keys(BaseModel):
    """A JSON Web Key Set (RFC 7517, section 5)."""

    keys: list[dict[str, Any]]


class _Tokens(BaseModel):
    """A token response (OpenID Connect Core 1.0, section 3.1.3.3)."""

    id_token: StrictStr
    access_token: StrictStr | None = None


# A longer subject is refused and not cut off: its first 255 characters could be another person's subject.
Subject = Annotated[StrictStr, Field(min_length=1, max_length=255, pattern=r"^[!-~ ]+$")]


class _Claims(BaseModel):
    """The claims of an ID token or of the userinfo endpoint that joserfc does not check."""

    sub: Subject
    aud: list[StrictStr] | StrictStr | None = None
    azp: StrictStr | None = None
    iat: int | float | None = None
    auth_time: int | float | None = None
    email: StrictStr | None = None
    email_verified: StrictBool | StrictStr | None = None
    sid: Any = None


class _LogoutClaims(BaseModel):
    """The claims of a logout token that joserfc does not check."""

    sub: Subject | None = None
    sid: Annotated[StrictStr, Field(min_length=1)] | None = None
    jti: Annotated[StrictStr, Field(min_length=1)]
    iat: int | float
    events: dict[str, Any]


class _Refusal(BaseModel):
    """An error response of a token endpoint (RFC 6749, section 5.2)."""

    error: Annotated[StrictStr, Field(pattern=r"^[a-z_]{1,40}$")]


@dataclass
class _Cached(Generic[T]):
    """A value that is fetched on demand and cached. Concurrent callers share one fetch."""

    fetch: Callable[[], Awaitable[T]]
    fetched_at_s: float = 0.0
    values: list[T] = field(default_factory=list)
    """Empty before the first fetch, then one value."""
    task: asyncio.Task[T] | None = None

    async def get(self, max_age_s: float) -> T:
        """Return the value, at most ``max_age_s`` old. Raises ProviderFailed."""
        if self.values and monotonic() - self.fetched_at_s < max_age_s:
            return self.values[0]
        if self.task is None:
            self.task = asyncio.create_task(self._fetch())
            self.task.add_done_callback(self._clear_task)
        # If the first caller is cancelled, the others still need the result.
        return await asyncio.shield(self.task)

    async def _fetch(self) -> T:
        value = await self.fetch()
        self.values, self.fetched_at_s = [value], monotonic()
        return value

    def _clear_task(self, task: asyncio.Task[T]) -> None:
        self.task = None
        if not task.cancelled():
            # Mark the exception as retrieved: there may be no caller left to receive it.
            task.exception()


class Provider:
    """The provider of a deployment, for one process."""

    def __init__(self, chosen: settings.Provider, redirect_uri: str) -> None:
        """Create the client without a request. The provider redirects people back to ``redirect_uri``."""
        self.chosen = chosen
        self.redirect_uri = redirect_uri
        self._http = AsyncClient(
            # Use the machine's trusted certificates and ignore proxy settings in the environment.
            verify=ssl.create_default_context(),
            trust_env=False,
            timeout=_TIMEOUT,
            limits=_LIMITS,
            follow_redirects=False,
            # A compressed response could be far longer than its transfer size.
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )
        self._metadata = _Cached(self._fetch_metadata)
        self._keys = _Cached(self._fetch_keys)

    @property
    def name(self) -> str:
        """The provider's name for people."""
        return self.chosen.name

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def location(self, attempt: Attempt) -> str:
        """Return the URL to which a browser is redirected to sign in. Raises ProviderFailed."""
        metadata = await self._metadata.get(_CACHE_S)
        parameters = {
            "response_type": "code",
            "client_id": self.chosen.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": SCOPE,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.code_challenge,
            "code_challenge_method": "S256",
            "max_age": str(_MAX_AGE_S),
        }
        if attempt.must_reauthenticate:
            parameters |= {"prompt": "login", "max_age": "0"}
        start = metadata.authorization_endpoint
        return f"{start}{'&' if '?' in start else '?'}{urlencode(parameters)}"

    async def check_issuer(self, given: str | None) -> None:
        """Check the ``iss`` parameter of an authorization response (RFC 9207). Raises ProviderFailed."""
        if given is None:
            metadata = await self._metadata.get(_CACHE_S)
            if metadata.authorization_response_iss_parameter_supported:
                raise ProviderFailed("the response has no iss parameter")
        elif given != self.chosen.issuer:
            raise ProviderFailed("the iss parameter of the response is another issuer's")

    async def redeem(
        self,
        code: str,
        code_verifier: str,
        nonce: str,
        reauthenticated_after: datetime | None = None,
    ) -> Proof:
        """Exchange ``code`` for tokens and return the confirmed identity. Raises ProviderFailed.

        ``reauthenticated_after``: the provider must have authenticated the person after that time.
        """
        metadata = await self._metadata.get(_CACHE_S)
        answer = await self._token(metadata, code, code_verifier)
        claims = await self._claims(answer.id_token, nonce)
        authenticated_at = _authenticated_at(claims)
        if reauthenticated_after is not None:
            earliest = reauthenticated_after - timedelta(seconds=_CLOCK_SKEW_S)
            if authenticated_at is None or authenticated_at < earliest:
                raise ProviderFailed("the provider did not authenticate the person again")
        about_email = claims
        if claims.email is None and answer.access_token and metadata.userinfo_endpoint:
            about_email = await self._userinfo(metadata.userinfo_endpoint, answer.access_token)
            if about_email.sub != claims.sub:
                raise ProviderFailed("userinfo: the subject is another one")
        return Proof(
            self.chosen.issuer,
            claims.sub,
            about_email.email,
            # Some providers send the string "true", which is not accepted.
            is_email_verified=about_email.email_verified is True,
            authenticated_at=authenticated_at,
            session_hash=self._hash("session", claims.sid),
        )

    async def logout(self, logout_token: str) -> Logout:
        """Return what a logout token announces (Back-Channel Logout 1.0, section 2.6).

        Raises ProviderFailed. Whether the token was sent before is not checked.
        """
        with _naming("logout token"):
            header, given = await self._signed(logout_token)
            kind = str(header.get("typ", "jwt")).lower().removeprefix("application/")
            if kind not in ("jwt", "logout+jwt"):
                raise ProviderFailed("it is a token of another type")
            claims = self._logout_claims(given)
        session_hash = self._hash("session", claims.sid)
        logout_hash = self._hash("logout", claims.jti)
        assert logout_hash is not None  # noqa: S101 -- the claim is required
        return Logout(self.chosen.issuer, claims.sub, session_hash, logout_hash)

    def _logout_claims(self, given: dict[str, Any]) -> _LogoutClaims:
        if "nonce" in given:
            # Only ID tokens have one.
            raise ProviderFailed("it has a nonce")
        JWTClaimsRegistry(
            leeway=_CLOCK_SKEW_S,
            iss={"essential": True, "value": self.chosen.issuer},
            aud={"essential": True, "value": self.chosen.client_id},
            iat={"essential": True},
            jti={"essential": True},
            events={"essential": True},
        ).validate(given)
        claims = _LogoutClaims.model_validate(given)
        if not isinstance(claims.events.get(_LOGOUT_EVENT), dict):
            raise ProviderFailed("its events are others")
        if claims.sub is None and claims.sid is None:
            raise ProviderFailed("it names neither a person nor a session")
        if claims.iat < time() - MAX_LOGOUT_TOKEN_AGE_S:
            raise ProviderFailed("issued too long ago")
        return claims

    def _hash(self, purpose: str, given: Any) -> bytes | None:
        """Return a hash of a name that the provider uses; None if it is none."""
        if not isinstance(given, str) or not given:
            return None
        text = f"{purpose} at {self.chosen.issuer} {given}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    async def _token(self, metadata: _Metadata, code: str, code_verifier: str) -> _Tokens:
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri,
            "code_verifier": code_verifier,
        }
        methods = metadata.token_endpoint_auth_methods_supported
        credentials = None
        if "client_secret_basic" in methods:
            # The id and the secret are each form-encoded (RFC 6749, section 2.3.1).
            credentials = httpx2.BasicAuth(
                quote_plus(self.chosen.client_id), quote_plus(self.chosen.client_secret)
            )
        elif "client_secret_post" in methods:
            fields |= {
                "client_id": self.chosen.client_id,
                "client_secret": self.chosen.client_secret,
            }
        else:
            raise ProviderFailed(
                "the token endpoint supports neither client_secret_basic nor client_secret_post"
            )
        request = self._http.build_request("POST", metadata.token_endpoint, data=fields)
        return _parse(_Tokens, await self._fetch("token endpoint", request, credentials))

    async def _userinfo(self, endpoint: str, access_token: str) -> _Claims:
        if not re.fullmatch(r"[!-~]+", access_token):
            raise ProviderFailed("the access token has characters that a header cannot hold")
        request = self._http.build_request(
            "GET", endpoint, headers={"Authorization": f"Bearer {access_token}"}
        )
        return _parse(_Claims, await self._fetch("userinfo", request))

    async def _claims(self, id_token: str, nonce: str) -> _Claims:
        """Return the claims of an ID token, all checked (OpenID Connect Core 1.0, section 3.1.3.7)."""
        with _naming("ID token"):
            _, given = await self._signed(id_token)
            return self._id_claims(given, nonce)

    async def _signed(self, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return header and claims of a token that the provider has signed. The claims are not checked."""
        key = await self._key(text)
        # Unknown header parameters are ignored (RFC 7515, section 4), except those listed in `crit`.
        registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        token = jwt.decode(text, key, algorithms=ALGORITHMS, registry=registry)
        return token.header, token.claims

    async def _key(self, text: str) -> Key:
        """Return the key that the header of a token names. Nothing is verified yet."""
        header = jws.extract_compact(text.encode()).headers()
        if header["alg"] not in ALGORITHMS:
            raise ProviderFailed("signed with an algorithm that is not accepted")
        for max_age_s in (_CACHE_S, _MIN_KEY_AGE_S):
            key = _matching_key(await self._keys.get(max_age_s), header["alg"], header.get("kid"))
            if key is not None:
                return key
        raise ProviderFailed("signed with a key that is not in the provider's key set")

    def _id_claims(self, given: dict[str, Any], nonce: str) -> _Claims:
        client_id = self.chosen.client_id
        JWTClaimsRegistry(
            leeway=_CLOCK_SKEW_S,
            iss={"essential": True, "value": self.chosen.issuer},
            sub={"essential": True},
            aud={"essential": True, "value": client_id},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        ).validate(given)
        if not isinstance(given["nonce"], str):
            raise ProviderFailed("invalid nonce")
        claims = _Claims.model_validate(given)
        audiences = claims.aud if isinstance(claims.aud, list) else [claims.aud]
        if (len(audiences) > 1 or claims.azp is not None) and claims.azp != client_id:
            raise ProviderFailed("issued for another client")
        if claims.iat is None or claims.iat < time() - _MAX_ID_TOKEN_AGE_S:
            raise ProviderFailed("issued too long ago")
        return claims

    async def _fetch_metadata(self) -> _Metadata:
        issuer = self.chosen.issuer
        address = f"{issuer.removesuffix('/')}/.well-known/openid-configuration"
        body = await self._fetch("metadata", self._http.build_request("GET", address))
        metadata = _parse(_Metadata, body)
        if metadata.issuer != issuer:
            raise ProviderFailed("metadata: the issuer is another one")
        endpoints = (
            metadata.authorization_endpoint,
            metadata.token_endpoint,
            metadata.jwks_uri,
            metadata.userinfo_endpoint,
        )
        if not all(_is_safe(each, issuer) for each in endpoints if each is not None):
            raise ProviderFailed("metadata: an endpoint is not a valid https URL")
        return metadata

    async def _fetch_keys(self) -> list[tuple[str | None, Key]]:
        metadata = await self._metadata.get(_CACHE_S)
        request = self._http.build_request("GET", metadata.jwks_uri)
        key_set = _parse(_Keys, await self._fetch("keys", request))
        return [key for each in key_set.keys if (key := _import_key(each)) is not None]

    async def _fetch(
        self, what: str, request: Request, credentials: httpx2.BasicAuth | None = None
    ) -> bytes:
        """Send a request and return the body of a response with status 200."""
        body = bytearray()
        try:
            async with asyncio.timeout(TOTAL_TIMEOUT_S):
                response = await self._http.send(request, stream=True, auth=credentials)
                try:
                    async for chunk in response.aiter_raw():
                        body += chunk
                        if len(body) > _MAX_ANSWER_BYTES:
                            raise ProviderFailed(f"{what}: the response is too long")
                finally:
                    await response.aclose()
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            raise ProviderDown(f"{what}: no response ({type(error).__name__})") from None
        if response.status_code >= 500 or response.status_code == 429:
            raise ProviderDown(f"{what}: status {response.status_code}")
        if response.status_code != 200:
            raise ProviderFailed(f"{what}: status {response.status_code}{_error_of(bytes(body))}")
        return bytes(body)


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Raise ProviderFailed for all errors of the block, which reads a token, and say which one it is."""
    try:
        yield
    except ProviderDown:
        raise
    except ProviderFailed as error:
        raise ProviderFailed(f"{what}: {error}") from None
    except JoseError as error:
        raise ProviderFailed(f"{what}: {error.error}") from None
    except Exception as error:
        # A malformed token can make a parser raise any exception.
        raise ProviderFailed(f"{what}: {type(error).__name__}") from None


Model = TypeVar("Model", bound=BaseModel)


def _parse(shape: type[Model], body: bytes) -> Model:
    try:
        return TypeAdapter(shape).validate_json(body)
    except ValidationError as error:
        # The error name only: pydantic's message would repeat what the provider sent.
        at = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"]) or "body"
        raise ProviderFailed(f"{shape.__name__.lower()}: malformed at {at[:60]!a}") from None


def _error_of(body: bytes) -> str:
    try:
        return f" ({_Refusal.model_validate_json(body).error})"
    except ValidationError:
        return ""


def _authenticated_at(claims: _Claims) -> datetime | None:
    """Return when the provider authenticated the person; None if ``auth_time`` is missing or implausible."""
    at_s = claims.auth_time
    if at_s is None or not 0 <= at_s <= time() + _CLOCK_SKEW_S:
        return None
    return datetime.fromtimestamp(at_s, UTC)


def _is_safe(address: str, issuer: str) -> bool:
    """Whether an endpoint is acceptable: https, or http on loopback if the issuer is http too."""
    try:
        parts = urlsplit(address)
        is_address = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    is_loopback = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return (
        is_address
        and re.fullmatch(r"[!-~]+", address) is not None
        and "#" not in address
        and parts.username is None
        and (
            parts.scheme == "https"
            or (parts.scheme == "http" and is_loopback and issuer.startswith("http:"))
        )
    )


def _import_key(given: dict[str, Any]) -> tuple[str | None, Key] | None:
    """Return a key with its id, or None if it cannot be used."""
    if given.get("kty") not in ("RSA", "EC", "OKP"):
        # Shared secrets ("oct") must never be accepted.
        return None
    try:
        key = JWKRegistry.import_key(given)
    except Exception:
        # A key that cannot be read is skipped: the other keys are still useful.
        log.info("the provider has a key that cannot be used")
        return None
    kid = given.get("kid")
    return (kid if isinstance(kid, str) else None), key


def _matching_key(keys: list[tuple[str | None, Key]], alg: str, kid: object) -> Key | None:
    """Return the key with that id for the algorithm; without an id, the only key for the algorithm."""
    model = JWSRegistry.algorithms[alg]
    fitting = []
    for own_kid, key in keys:
        try:
            model.check_key(key)
        except JoseError:
            continue
        if kid is None or own_kid == kid:
            fitting.append(key)
    return fitting[0] if len(fitting) == 1 or (fitting and kid is not None) else None
