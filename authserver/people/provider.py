"""The OpenID Connect provider through which people may sign in: what it is asked, and how its answers
are checked (OpenID Connect Core 1.0, section 3.1; Discovery 1.0; RFC 9700).

What it says about itself, and its keys, are fetched when they are first needed and kept for an hour. A
token under a key that is not among them has the keys fetched again, at most once a minute: so a provider
may change its keys at any time, and nobody can make us ask it again and again.

Nothing that comes from it is trusted beyond its form: answers are short, of the expected shape and in
time, or the sign-in has failed. Why, the log says in words of ours; what the provider sent is not in it.
"""

import asyncio
import logging
import re
import ssl
from collections.abc import Awaitable, Callable
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

from shared import settings
from shared.settings import Settings

log = logging.getLogger("svc.provider")

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512"),
    *("PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512"),
    "Ed25519",
)
"""What an ID token may be signed with: pairs of keys alone, of which we know the public one."""
CALLBACK: Final = "/sign-in/provider/callback"
SCOPE: Final = "openid email"

_MAX_ANSWER_BYTES: Final = 256 * 1024
TOTAL_TIMEOUT_S: Final = 8.0
"""How long an answer may take from the first byte that we send to the last that comes."""
_TIMEOUT: Final = Timeout(5.0, connect=3.0)
_LIMITS: Final = Limits(max_connections=16, max_keepalive_connections=4, keepalive_expiry=30)
_CACHE_S: Final = 3600.0
_MIN_KEY_AGE_S: Final = 60.0

_CLOCK_SKEW_S: Final = 60
_MAX_ID_TOKEN_AGE_S: Final = 600

# Whoever is asked with max_age has to say when somebody proved who they are, and every provider must be
# able to (OpenID Connect Core 1.0, sections 2 and 15.1), which is not so of the `claims` parameter. It is
# too long to make anybody sign in there once more, and short enough for providers that add it to the
# present time in 32 bits.
_MAX_AGE_S: Final = 365 * 24 * 3600

T = TypeVar("T")


class ProviderFailed(Exception):
    """The provider's answer is not one that somebody can be signed in by; the text is for the log."""


class ProviderDown(ProviderFailed):
    """The provider does not answer, or says itself that it cannot."""


class _Metadata(BaseModel):
    """What a provider says about itself (OpenID Connect Discovery 1.0, section 3)."""

    issuer: StrictStr
    authorization_endpoint: StrictStr
    token_endpoint: StrictStr
    jwks_uri: StrictStr
    userinfo_endpoint: StrictStr | None = None
    token_endpoint_auth_methods_supported: list[StrictStr] = ["client_secret_basic"]
    authorization_response_iss_parameter_supported: StrictBool = False


class _Keys(BaseModel):
    """A set of keys (RFC 7517, section 5)."""

    keys: list[dict[str, Any]]


class _Tokens(BaseModel):
    """The answer to a code (OpenID Connect Core 1.0, section 3.1.3.3)."""

    id_token: StrictStr
    access_token: StrictStr | None = None


class _Claims(BaseModel):
    """What is read of an ID token or of the userinfo endpoint, beside what joserfc has checked."""

    # Whoever knows more than the first 255 characters of a name may be somebody else.
    sub: Annotated[StrictStr, Field(min_length=1, max_length=255, pattern=r"^[!-~ ]+$")]
    aud: list[StrictStr] | StrictStr | None = None
    azp: StrictStr | None = None
    iat: int | float | None = None
    auth_time: int | float | None = None
    email: StrictStr | None = None
    email_verified: StrictBool | StrictStr | None = None


class _Refusal(BaseModel):
    """Why a token endpoint says no (RFC 6749, section 5.2)."""

    error: Annotated[StrictStr, Field(pattern=r"^[a-z_]{1,40}$")]


@dataclass(frozen=True)
class Attempt:
    """What of one attempt goes to the provider; ``nonce`` and ``code_verifier`` are secrets until then."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    code_verifier: str = field(repr=False)
    code_challenge: str
    must_reauthenticate: bool = False
    """Whether the provider shall make sure who sits there, even where it knows."""


@dataclass(frozen=True)
class Proof:
    """Who somebody is, on the word of the provider."""

    issuer: str
    subject: str
    email: str | None
    is_email_verified: bool
    authenticated_at: datetime | None
    """When the provider last made sure who sits there, by its own clock; None where it does not say."""


@dataclass
class _Cached(Generic[T]):
    """Something that is fetched when it is needed, by one at a time for everybody who waits for it."""

    fetch: Callable[[], Awaitable[T]]
    fetched_at_s: float = 0.0
    values: list[T] = field(default_factory=list)
    """One, once there is one."""
    task: asyncio.Task[T] | None = None

    async def get(self, max_age_s: float) -> T:
        """Return what is at most so old. Raises ProviderFailed."""
        if self.values and monotonic() - self.fetched_at_s < max_age_s:
            return self.values[0]
        if self.task is None:
            self.task = asyncio.create_task(self._fetch())
            self.task.add_done_callback(self._clear_task)
        # Whoever asked first may go away; the others still wait.
        return await asyncio.shield(self.task)

    async def _fetch(self) -> T:
        value = await self.fetch()
        self.values, self.fetched_at_s = [value], monotonic()
        return value

    def _clear_task(self, task: asyncio.Task[T]) -> None:
        self.task = None
        if not task.cancelled():
            # An error that nobody is left to be told of is no mistake of ours.
            task.exception()


class Provider:
    """The provider of a deployment, for one process."""

    def __init__(self, chosen: settings.Provider, redirect_uri: str) -> None:
        """Ask nothing yet; ``redirect_uri`` is where the provider sends people back to."""
        self.chosen = chosen
        self.redirect_uri = redirect_uri
        self._http = AsyncClient(
            # The certificates that the machine trusts, and no settings from anywhere else.
            verify=ssl.create_default_context(),
            trust_env=False,
            timeout=_TIMEOUT,
            limits=_LIMITS,
            follow_redirects=False,
            # Packed, a short answer could become a long one.
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )
        self._metadata = _Cached(self._fetch_metadata)
        self._keys = _Cached(self._fetch_keys)

    @property
    def name(self) -> str:
        """What people call it."""
        return self.chosen.name

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def location(self, attempt: Attempt) -> str:
        """Return where to send somebody who wants to sign in. Raises ProviderFailed."""
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
        """Return where an answer is this provider's, by its ``iss`` (RFC 9207). Raises ProviderFailed."""
        if given is None:
            metadata = await self._metadata.get(_CACHE_S)
            if metadata.authorization_response_iss_parameter_supported:
                raise ProviderFailed("the answer does not say whose it is")
        elif given != self.chosen.issuer:
            raise ProviderFailed("the answer is another provider's")

    async def redeem(
        self,
        code: str,
        code_verifier: str,
        nonce: str,
        reauthenticated_after: datetime | None = None,
    ) -> Proof:
        """Return who came back with ``code``. Raises ProviderFailed.

        ``reauthenticated_after``: the provider had to make sure who sits there, after that time.
        """
        metadata = await self._metadata.get(_CACHE_S)
        answer = await self._token(metadata, code, code_verifier)
        claims = await self._claims(answer.id_token, nonce)
        authenticated_at = _authenticated_at(claims)
        if reauthenticated_after is not None:
            earliest = reauthenticated_after - timedelta(seconds=_CLOCK_SKEW_S)
            if authenticated_at is None or authenticated_at < earliest:
                raise ProviderFailed("it did not make sure who sits there")
        about_email = claims
        if claims.email is None and answer.access_token and metadata.userinfo_endpoint:
            about_email = await self._userinfo(metadata.userinfo_endpoint, answer.access_token)
            if about_email.sub != claims.sub:
                raise ProviderFailed("userinfo is about somebody else")
        return Proof(
            self.chosen.issuer,
            claims.sub,
            about_email.email,
            # Some say it as a word, and no word is as good as saying it.
            is_email_verified=about_email.email_verified is True,
            authenticated_at=authenticated_at,
        )

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
            # Each half is encoded like a form's field (RFC 6749, section 2.3.1).
            credentials = httpx2.BasicAuth(
                quote_plus(self.chosen.client_id), quote_plus(self.chosen.client_secret)
            )
        elif "client_secret_post" in methods:
            fields |= {
                "client_id": self.chosen.client_id,
                "client_secret": self.chosen.client_secret,
            }
        else:
            raise ProviderFailed("it takes no client secret, neither as Basic nor as a field")
        request = self._http.build_request("POST", metadata.token_endpoint, data=fields)
        return _parse(_Tokens, await self._fetch("token endpoint", request, credentials))

    async def _userinfo(self, endpoint: str, access_token: str) -> _Claims:
        if not re.fullmatch(r"[!-~]+", access_token):
            raise ProviderFailed("the access token cannot stand in a header")
        request = self._http.build_request(
            "GET", endpoint, headers={"Authorization": f"Bearer {access_token}"}
        )
        return _parse(_Claims, await self._fetch("userinfo", request))

    async def _claims(self, id_token: str, nonce: str) -> _Claims:
        """Return what a token says, once all of it is checked (OpenID Connect Core 1.0, 3.1.3.7)."""
        try:
            return self._verified(id_token, nonce, await self._key(id_token))
        except ProviderFailed:
            raise
        except JoseError as error:
            raise ProviderFailed(f"ID token: {error.error}") from None
        except Exception as error:
            # What a stranger's token makes a parser stumble over is never a mistake of this service.
            raise ProviderFailed(f"ID token: {type(error).__name__}") from None

    async def _key(self, id_token: str) -> Key:
        """Return the key that a token says it is signed with, of whom it says nothing yet."""
        header = jws.extract_compact(id_token.encode()).headers()
        if header["alg"] not in ALGORITHMS:
            raise ProviderFailed("ID token: signed by an algorithm that is not taken")
        for max_age_s in (_CACHE_S, _MIN_KEY_AGE_S):
            found = _matching_key(await self._keys.get(max_age_s), header["alg"], header.get("kid"))
            if found is not None:
                return found
        raise ProviderFailed("ID token: signed by a key that the provider does not name")

    def _verified(self, id_token: str, nonce: str, key: Key) -> _Claims:
        # What a header has beyond what we know is to be ignored (RFC 7515, section 4), but for `crit`.
        registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        token = jwt.decode(id_token, key, algorithms=ALGORITHMS, registry=registry)
        client_id = self.chosen.client_id
        JWTClaimsRegistry(
            leeway=_CLOCK_SKEW_S,
            iss={"essential": True, "value": self.chosen.issuer},
            sub={"essential": True},
            aud={"essential": True, "value": client_id},
            exp={"essential": True},
            iat={"essential": True},
            nonce={"essential": True, "value": nonce},
        ).validate(token.claims)
        if not isinstance(token.claims["nonce"], str):
            raise ProviderFailed("ID token: invalid nonce")
        claims = _Claims.model_validate(token.claims)
        audiences = claims.aud if isinstance(claims.aud, list) else [claims.aud]
        if (len(audiences) > 1 or claims.azp is not None) and claims.azp != client_id:
            raise ProviderFailed("ID token: made for another application")
        if claims.iat is None or claims.iat < time() - _MAX_ID_TOKEN_AGE_S:
            raise ProviderFailed("ID token: made long ago")
        return claims

    async def _fetch_metadata(self) -> _Metadata:
        issuer = self.chosen.issuer
        address = f"{issuer.removesuffix('/')}/.well-known/openid-configuration"
        body = await self._fetch("metadata", self._http.build_request("GET", address))
        metadata = _parse(_Metadata, body)
        if metadata.issuer != issuer:
            raise ProviderFailed("metadata: of another issuer")
        endpoints = (
            metadata.authorization_endpoint,
            metadata.token_endpoint,
            metadata.jwks_uri,
            metadata.userinfo_endpoint,
        )
        if not all(_is_safe(each, issuer) for each in endpoints if each is not None):
            raise ProviderFailed("metadata: an endpoint that is no address, or not https")
        return metadata

    async def _fetch_keys(self) -> list[tuple[str | None, Key]]:
        metadata = await self._metadata.get(_CACHE_S)
        request = self._http.build_request("GET", metadata.jwks_uri)
        found = _parse(_Keys, await self._fetch("keys", request))
        return [key for each in found.keys if (key := _import_key(each)) is not None]

    async def _fetch(
        self, what: str, request: Request, credentials: httpx2.BasicAuth | None = None
    ) -> bytes:
        """Return the body of a good answer."""
        body = bytearray()
        try:
            async with asyncio.timeout(TOTAL_TIMEOUT_S):
                response = await self._http.send(request, stream=True, auth=credentials)
                try:
                    async for chunk in response.aiter_raw():
                        body += chunk
                        if len(body) > _MAX_ANSWER_BYTES:
                            raise ProviderFailed(f"{what}: the answer is too long")
                finally:
                    await response.aclose()
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            raise ProviderDown(f"{what}: no answer ({type(error).__name__})") from None
        if response.status_code >= 500 or response.status_code == 429:
            raise ProviderDown(f"{what}: status {response.status_code}")
        if response.status_code != 200:
            raise ProviderFailed(f"{what}: status {response.status_code}{_error_of(bytes(body))}")
        return bytes(body)


def provider(chosen: Settings) -> Provider | None:
    """Return the provider of a deployment, or None."""
    if chosen.provider is None:
        return None
    return Provider(chosen.provider, f"{chosen.auth_url}{CALLBACK}")


Model = TypeVar("Model", bound=BaseModel)


def _parse(shape: type[Model], body: bytes) -> Model:
    try:
        return TypeAdapter(shape).validate_json(body)
    except ValidationError as error:
        # What pydantic says of it repeats what was sent.
        at = ".".join(str(part) for part in error.errors(include_input=False)[0]["loc"]) or "body"
        raise ProviderFailed(f"{shape.__name__.lower()}: not understood, at {at[:60]!a}") from None


def _error_of(body: bytes) -> str:
    try:
        return f" ({_Refusal.model_validate_json(body).error})"
    except ValidationError:
        return ""


def _authenticated_at(claims: _Claims) -> datetime | None:
    """Return when somebody proved to the provider who they are; what cannot be such a time is none."""
    at_s = claims.auth_time
    if at_s is None or not 0 <= at_s <= time() + _CLOCK_SKEW_S:
        return None
    return datetime.fromtimestamp(at_s, UTC)


def _is_safe(address: str, issuer: str) -> bool:
    """Whether an endpoint may be asked: over https, or over http where the issuer itself is on loopback."""
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
    """Return a key with its id, or None where it is of no use here; the others still are."""
    if given.get("kty") not in ("RSA", "EC", "OKP"):
        # Above all no secret that is shared ("oct").
        return None
    try:
        key = JWKRegistry.import_key(given)
    except Exception:
        # A key that cannot be read is one that no token can be checked with, whatever is wrong with it.
        log.info("the provider has a key that cannot be used")
        return None
    kid = given.get("kid")
    return (kid if isinstance(kid, str) else None), key


def _matching_key(keys: list[tuple[str | None, Key]], alg: str, kid: object) -> Key | None:
    """Return the key of that id that can sign so; without an id, the only one that can."""
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
