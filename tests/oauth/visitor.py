"""People and applications of these tests: a browser without JavaScript, and an OAuth client."""

import base64
import hashlib
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.cookiejar import DefaultCookiePolicy
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from httpx2 import Client, Response

CALLBACK = "https://app.example/callback"
VERIFIER = "a-verifier-of-43-characters-or-more-0123456789"
CHALLENGE = (
    base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
)


@dataclass
class Form:
    """A form of a page, with the values that it would send unchanged."""

    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list)


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form":
            self.forms.append(Form(given.get("action") or "", given.get("method") or "get"))
        if tag == "input" and given.get("name"):
            is_box = given.get("type") in ("checkbox", "radio")
            if not is_box or "checked" in given:
                self.forms[-1].fields.append((given["name"] or "", given.get("value") or ""))


def forms(page: Response) -> list[Form]:
    """Return the forms of a page."""
    parser = _Forms()
    parser.feed(page.text)
    return parser.forms


def parameters(response: Response) -> dict[str, list[str]]:
    """Return the query of the address that a redirect leads to."""
    return parse_qs(urlsplit(response.headers["location"]).query, keep_blank_values=True)


@dataclass
class Visitor:
    """A browser: it keeps cookies and follows no redirect by itself."""

    client: Client
    cookies: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Have the client keep no cookies: other threads would change them while it sends."""
        self.client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))

    def get(self, path: str, **options: Any) -> Response:
        """Open a page."""
        return self._send("GET", path, **options)

    def post(self, path: str, data: Any = None, **options: Any) -> Response:
        """Send fields, which need not be those of a form."""
        return self._send("POST", path, data=data, **options)

    def submit(self, page: Response, *, form: int = 0, **changed: Any) -> Response:
        """Send a form of ``page`` as a browser would; None leaves a field out, a list repeats it."""
        sent = forms(page)[form]
        fields = [(name, value) for name, value in sent.fields if name not in changed]
        for name, value in changed.items():
            values = value if isinstance(value, list) else [value]
            fields += [(name, each) for each in values if each is not None]
        body = urlencode(fields)
        return self._send(
            "POST",
            sent.action,
            content=body,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )

    def follow(self, response: Response) -> Response:
        """Follow a redirect within the service."""
        location = response.headers["location"]
        assert location.startswith(("/", "http://localhost:8400/")), location
        return self.get(location)

    def _send(self, method: str, path: str, **options: Any) -> Response:
        request = self.client.build_request(method, path, **options)
        # Visitors of several threads share the client, and must not send each other's cookies.
        request.headers.pop("Cookie", None)
        if self.cookies:
            request.headers["Cookie"] = "; ".join(
                f"{name}={value}" for name, value in self.cookies.items()
            )
        response = self.client.send(request, follow_redirects=False)
        self.cookies.update(response.cookies)
        return response


def signed_in(client: Client, email: str, password: str) -> Visitor:
    """Sign in on the page and return the browser."""
    visitor = Visitor(client)
    response = visitor.submit(visitor.get("/sign-in"), email=email, password=password)
    assert response.status_code == 303, response.text
    return visitor


@dataclass
class Application:
    """A registered client, which keeps nothing but its id."""

    client: Client
    client_id: str
    redirect_uri: str = CALLBACK

    def authorize_path(self, **changed: str | None) -> str:
        """Return the path of an authorization request; None leaves a parameter out."""
        return "/oauth/authorize?" + urlencode(self.authorize_parameters(**changed))

    def authorize_parameters(self, **changed: str | None) -> dict[str, str]:
        """Return the parameters of a valid authorization request with changes."""
        given = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "scope": "read:activity read:profile",
            "state": "xyz",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
        } | changed
        return {name: value for name, value in given.items() if value is not None}

    def exchange(self, code: str, **changed: str | None) -> Response:
        """Present a code."""
        return self.token(
            grant_type="authorization_code",
            code=code,
            **{
                "client_id": self.client_id,
                "redirect_uri": self.redirect_uri,
                "code_verifier": VERIFIER,
            }
            | changed,
        )

    def refresh(self, refresh_token: str, **changed: str | None) -> Response:
        """Present a refresh token."""
        return self.token(
            grant_type="refresh_token",
            refresh_token=refresh_token,
            **{"client_id": self.client_id} | changed,
        )

    def token(self, **fields: str | None) -> Response:
        """Send these fields to the token endpoint."""
        given = {name: value for name, value in fields.items() if value is not None}
        return self.client.post("/oauth/token", data=given)

    def revoke(self, token: str, **fields: str) -> Response:
        """Revoke a token."""
        return self.client.post("/oauth/revoke", data={"token": token} | fields)

    def code(self, visitor: Visitor, *, ticked: list[str] | None = None, **changed: Any) -> str:
        """Consent to the ticked scopes, by default all, and return the code."""
        page = visitor.follow(visitor.get(self.authorize_path(**changed)))
        scopes: dict[str, Any] = {} if ticked is None else {"scope": ticked}
        return parameters(visitor.submit(page, decision="allow", **scopes))["code"][0]

    def pair(self, visitor: Visitor, **changed: Any) -> dict[str, Any]:
        """Consent, redeem the code and return the token response."""
        sent_again = {"resource": changed["resource"]} if "resource" in changed else {}
        response = self.exchange(self.code(visitor, **changed), **sent_again)
        assert response.status_code == 200, response.text
        body: dict[str, Any] = response.json()
        return body
