"""An OpenID Connect provider for tests, which can be configured to behave wrongly.

``authorize`` plays the browser's part of the sign-in; for a real browser there is a page with two links. The
rest works over HTTP. ``tests/browser/test_provider.py`` has tests with a real provider.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, Key

CLIENT_ID = "svc client"
CLIENT_SECRET = "s3cret:/+ with a space"

Body = dict[str, Any] | bytes


@dataclass
class Issuer:
    """A provider whose every answer can be changed."""

    url: str
    redirect_uri: str = "http://localhost:8400/sign-in/provider/callback"
    person: dict[str, Any] = field(
        default_factory=lambda: {
            "sub": "248289761001",
            "email": "alice@example.org",
            "email_verified": True,
        }
    )
    """The signed-in person, as in the ID token."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Changes to the metadata; None leaves a member out."""
    claims: dict[str, Any] = field(default_factory=dict)
    """Changes to the claims of the ID token; None leaves a claim out."""
    userinfo: dict[str, Any] = field(default_factory=dict)
    """The claims of the userinfo response, besides the subject."""
    key: Key = field(default_factory=lambda: new_key("one"))
    algorithm: str = "ES256"
    published: list[dict[str, Any]] = field(default_factory=list)
    """Its keys, by default the one that it signs with."""
    instead: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """By path: a status and a body in place of the answer."""
    held: dict[str, threading.Event] = field(default_factory=dict)
    """By path: requests for it are not answered before this."""
    id_token: str | None = None
    """An ID token to send instead of a created one."""
    asked: list[str] = field(default_factory=list)
    """The requested paths."""
    used_post: bool = False
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    redeemed: list[str] = field(default_factory=list)

    @contextmanager
    def holding(self, path: str) -> Iterator[None]:
        """Answer no request for ``path`` before the end of the block."""
        released = self.held[path] = threading.Event()
        try:
            yield
        finally:
            del self.held[path]
            released.set()

    def begin_anew(self) -> None:
        """Be as a provider of the same address is at first."""
        vars(self).update(vars(Issuer(self.url)))

    def authorize(self, location: str, **changed: str | None) -> str:
        """Return the callback URL after the person agrees, with ``changed`` parameters."""
        parts = urlsplit(location)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.url}/authorize"
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert query["response_type"] == "code"
        assert query["client_id"] == CLIENT_ID
        assert query["code_challenge_method"] == "S256"
        assert query["redirect_uri"] == self.redirect_uri
        code = secrets.token_urlsafe(16)
        self.codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.url} | changed
        given = {name: value for name, value in answer.items() if value is not None}
        return f"/sign-in/provider/callback?{urlencode(given)}"

    def answer(self, path: str, authorization: str, sent: dict[str, str]) -> tuple[int, bytes]:
        """Return status and body for a request."""
        self.asked.append(path)
        if path in self.held:
            self.held[path].wait(60)
        if path in self.instead:
            return self.instead[path]
        if path == "/.well-known/openid-configuration":
            return 200, _json(self._described())
        if path == "/keys":
            keys = self.published or [self.key.as_dict(private=False)]
            return 200, _json({"keys": keys})
        if path == "/token":
            return self._token(authorization, sent)
        if path == "/userinfo" and authorization == "Bearer at":
            return 200, _json({"sub": self.person["sub"]} | self.userinfo)
        return 404, b"nothing"

    def question(self, location: str) -> bytes:
        """Return the page on which a person agrees or stops."""
        agree = self.authorize(location)
        stop = self.authorize(location, code=None, error="access_denied")
        links = "".join(
            f'<p><a href="{escape(self.redirect_uri)}?{escape(urlsplit(back).query)}">{words}</a>'
            for words, back in (("Continue", agree), ("Stop", stop))
        )
        return f'<!doctype html><html lang="en"><title>Who are you?</title>{links}'.encode()

    def _described(self) -> dict[str, Any]:
        return _without_none(
            {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
                "userinfo_endpoint": f"{self.url}/userinfo",
                "authorization_response_iss_parameter_supported": True,
            }
            | self.metadata
        )

    def _token(self, authorization: str, sent: dict[str, str]) -> tuple[int, bytes]:
        if not self._is_client(authorization, sent):
            return 401, _json({"error": "invalid_client"})
        query = self.codes.get(sent["code"])
        digest = hashlib.sha256(sent["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (
            query is None
            or sent["code"] in self.redeemed
            or challenge != query["code_challenge"]
            or sent["redirect_uri"] != query["redirect_uri"]
        ):
            return 400, _json({"error": "invalid_grant"})
        self.redeemed.append(sent["code"])
        now = int(time.time())
        claims = self.person | {
            "iss": self.url,
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": query["nonce"],
        }
        if "max_age" in query:
            claims["auth_time"] = now
        id_token = self.id_token or self.sign(_without_none(claims | self.claims))
        return 200, _json({"access_token": "at", "token_type": "Bearer", "id_token": id_token})

    def _is_client(self, authorization: str, sent: dict[str, str]) -> bool:
        if self.used_post:
            return (sent.get("client_id"), sent.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)
        scheme, _, credentials = authorization.partition(" ")
        given = base64.b64decode(credentials).decode().split(":")
        return scheme == "Basic" and [*map(unquote_plus, given)] == [CLIENT_ID, CLIENT_SECRET]

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        """Return a token under the present key."""
        heading = {"alg": self.algorithm, "kid": self.key.kid} | header
        return jwt.encode(_without_none(heading), claims, self.key, algorithms=[self.algorithm])


def new_key(kid: str) -> ECKey:
    """Return a key to sign with."""
    return ECKey.generate_key("P-256", {"kid": kid})


def _without_none(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _json(given: dict[str, Any]) -> bytes:
    return json.dumps(given).encode()


@contextmanager
def listening() -> Iterator[Issuer]:
    """A provider on this machine, to the end of the block."""
    issuer = Issuer("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self.path.startswith("/authorize?"):
                self._answer({})
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(issuer.question(f"{issuer.url}{self.path}"))

        def do_POST(self) -> None:
            sent = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self._answer({name: values[0] for name, values in sent.items()})

        def _answer(self, sent: dict[str, str]) -> None:
            authorization = self.headers.get("Authorization", "")
            status, body = issuer.answer(self.path, authorization, sent)
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                if status in (301, 302, 307):
                    self.send_header("Location", f"{issuer.url}/elsewhere")
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                # The client has disconnected.
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        threading.Thread(target=listener.serve_forever, daemon=True).start()
        issuer.url = f"http://127.0.0.1:{listener.server_port}"
        yield issuer
        listener.shutdown()
