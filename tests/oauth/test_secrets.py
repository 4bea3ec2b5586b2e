"""A run against real processes, and then a search for every secret that occurred in it.

The run joins, signs in, consents, exchanges, refreshes and revokes, and does each of them wrongly too, with
secrets in every place where they could end up by mistake. All secrets that a client sends or receives are
recorded. Afterwards a dump of the database and all logs are searched for them.
"""

import base64
import hashlib
import json
import os
import re
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, quote_plus

import httpx2
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from deploy.postgres.binaries import binaries
from deploy.postgres.embedded import libpq_environment
from shared import sealing, settings, tokens
from shared.connections import RECEIVERS
from shared.listening import port_of
from shared.settings import Settings
from tests import processes
from tests.oauth.visitor import CALLBACK, Application, Visitor, forms, parameters
from tests.processes import AUTH_ROLES, RESOURCE_ROLES, Service

# Other tests' mistakes are in the same log of Postgres, so this alice has an address of her own.
EMAIL: Final = "alice.by.the.river@example.org"
PASSWORD: Final = "a heron waits in the shallow river"
ME: Final = "/api/v1/me"
DEVICE_CODE: Final = "urn:ietf:params:oauth:grant-type:device_code"

TOKEN: Final = re.compile(r"svc_(?:dt|rt|ac|dc|ss|ln|rq|st|ut|ik)_[0-9A-Za-z]{71}")
FORM_TOKEN: Final = re.compile(r'name="csrf" value="([^"]+)"')


@dataclass
class Secrets:
    """The secrets of a run, each with a description."""

    forbidden: dict[str, str] = field(default_factory=dict)
    """Secrets that must be neither in the database nor in a log."""
    unlogged: dict[str, str] = field(default_factory=dict)
    """Secrets that the database may hold, but no log."""

    def note(self, what: str, secret: str) -> str:
        """Record a secret that the run creates, and return it."""
        self.forbidden[secret] = what
        return secret

    def note_unlogged(self, what: str, text: str) -> str:
        """Record a secret that only logs must not contain, and return it."""
        self.unlogged[text] = what
        return text

    def see_request(self, request: httpx2.Request) -> None:
        """Record every token that a client sends."""
        self._see([str(request.url), *request.headers.values(), request.read().decode("latin-1")])

    def see_response(self, response: httpx2.Response) -> None:
        """Record every token, cookie and form token that a client receives."""
        response.read()
        self._see([*response.headers.values(), response.text])
        for header in response.headers.get_list("set-cookie"):
            self.note("cookie", header.partition("=")[2].partition(";")[0])
        for form_token in FORM_TOKEN.findall(response.text):
            self.note("form token", form_token)

    def _see(self, texts: Iterable[str]) -> None:
        for text in texts:
            for token in TOKEN.findall(text):
                self.note(token[:7], token)


def disguises(secret: str) -> set[str]:
    """Return the encodings of a secret, in lower case: plain, escaped, hex and base64.

    Within a longer text, base64 has three alignments; the neighbouring bytes change the characters at both
    ends, which are left out. For a token, a piece of its random part is enough.
    """
    raw = secret.encode()
    found = {
        secret,
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        raw.hex(),
    }
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + raw).decode().rstrip("=")
        inner = encoded[(0, 2, 3)[offset] : -1 if (offset + len(raw)) % 3 else None]
        found |= {inner, inner.replace("+", "-").replace("/", "_")}
    if TOKEN.fullmatch(secret):
        random_part = secret[29:72]
        found |= {random_part[start : start + 12] for start in range(0, 31, 6)}
    return {text.lower() for text in found}


def secrets_in(text: str, secrets: dict[str, str]) -> list[str]:
    """Return the secrets that a text contains in any encoding."""
    lowered = text.lower()
    return sorted(
        f"{what}: {secret}"
        for secret, what in secrets.items()
        if any(disguise in lowered for disguise in disguises(secret))
    )


@pytest.mark.parametrize(
    "text",
    [
        "code=tell+n%C3%B6 one: ever!",
        "code=tell%20n%c3%b6%20one%3a%20ever%21 ",
        "code=tell+n%C3%B6+one%3A+ever%21",
        '{"code": "tell n\\u00f6 one: ever!"}',
        f"\\\\x{'tell nö one: ever!'.encode().hex()}",
        f"{'tell nö one: ever!'.encode().hex().upper()}00",
        *(
            base64.b64encode(b"?" * before + "tell nö one: ever!".encode() + b"?" * after).decode()
            for before in range(4)
            for after in range(4)
        ),
        base64.urlsafe_b64encode("tell nö one: ever!".encode()).decode(),
    ],
)
def test_the_search_finds_a_secret_in_every_encoding(text: str) -> None:
    assert secrets_in(text.replace("tell+n%C3%B6 o", "tell nö o"), {"tell nö one: ever!": "x"})


def test_the_search_finds_a_piece_of_a_token() -> None:
    token = f"svc_dt_{'U' * 22}{'abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG'}{'C' * 6}"

    assert secrets_in("refused klmnopqrstuvwxyz01", {token: "access token"})
    assert not secrets_in(f"user {'U' * 22}, ends in CCCC", {token: "access token"})


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier (RFC 7636, section 4.2)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


@dataclass(frozen=True)
class Run:
    """The actions of the run: a person, an application, and mistakes of both."""

    service: Service
    secrets: Secrets
    auth: httpx2.Client
    api: httpx2.Client

    def svc(self, *words: str) -> str:
        """Return the output of a command, which may be a secret."""
        printed = processes.run(
            list(words),
            self.service.settings,
            processes.role_urls(self.service.settings, AUTH_ROLES),
        )
        for token in TOKEN.findall(printed):
            self.secrets.note(token[:7], token)
        return printed

    def me(self, token: str, **headers: str) -> int:
        """Call the resource server with a token, and return the status of its answer."""
        asked = self.api.get(ME, headers={"Authorization": f"Bearer {token}"} | headers)
        return asked.status_code

    def sign_up(self) -> Visitor:
        """Create the first account, and return its owner's browser."""
        note = self.secrets.note
        link = self.svc("user", "first-link")
        visitor = Visitor(self.auth)
        page = visitor.get(link)
        for email, password in (
            (EMAIL, note("password too short", "brief-owl")),
            (note("password for an address", "my heron, not my address"), PASSWORD),
        ):
            assert visitor.submit(page, email=email, password=password).status_code == 400
        self.secrets.note_unlogged("address", EMAIL)
        joined = visitor.submit(page, email=EMAIL, password=note("password", PASSWORD))
        assert joined.status_code == 303
        assert visitor.get(link).status_code == 400
        return visitor

    def sign_in(self, visitor: Visitor) -> None:
        """Sign out and, on the way to an application, in again."""
        visitor.submit(visitor.get("/settings"))
        signed_in = visitor.submit(visitor.get("/sign-in"), email=EMAIL, password=PASSWORD)
        assert signed_in.status_code == 303

    def fail_to_sign_in(self) -> None:
        """Try every wrong address and password, with secrets in headers and cookies as well."""
        note = self.secrets.note
        stranger = Visitor(
            self.auth, {"svc_session": note("forged cookie", "svc_ss_forged.signature")}
        )
        page = stranger.get(
            "/sign-in", headers={"User-Agent": note("user agent", "agent-my-heron")}
        )
        for email, password in (
            (EMAIL, note("wrong password", "a heron waits in the wrong river")),
            ("nobody@example.org", note("password of nobody", "an owl of nobody's own")),
            (note("password as address", "the heron@river.example I know"), PASSWORD),
            (note("password as address, alone", "Heron_without_address_9"), ""),
        ):
            assert stranger.submit(page, email=email, password=password).status_code in (400, 429)

    def authorize(self, visitor: Visitor, application: Application) -> tuple[str, str]:
        """Return a code that a person agreed to, and its verifier."""
        number = len(self.secrets.forbidden)
        verifier = self.secrets.note(
            "verifier", f"verifier-{number}-of-more-than-43-characters-in-all"
        )
        state = self.secrets.note_unlogged("state", f"state-{number}-of-a-client")
        challenge = self.secrets.note_unlogged("challenge", challenge_of(verifier))
        code = application.code(visitor, state=state, code_challenge=challenge)
        return code, verifier

    def exchange_and_refresh(self, visitor: Visitor, application: Application) -> list[str]:
        """Grant an application access, twice, and end each grant by a replay; return all its tokens."""
        code, verifier = self.authorize(visitor, application)
        wrong = self.secrets.note(
            "wrong verifier", "wrong-verifier-of-more-than-43-characters-in-all"
        )
        assert application.exchange(code, code_verifier=wrong).status_code == 400
        first = application.exchange(code, code_verifier=verifier).json()
        assert self.me(first["access_token"]) == 200
        second = application.refresh(first["refresh_token"]).json()
        assert self.me(second["access_token"]) == 200
        assert application.refresh(first["refresh_token"]).status_code == 400
        assert self.me(second["access_token"]) == 401

        code, verifier = self.authorize(visitor, application)
        third = application.exchange(code, code_verifier=verifier).json()
        assert application.exchange(code, code_verifier=verifier).status_code == 400
        assert self.me(third["access_token"]) == 401
        return [
            pair[kind]
            for pair in (first, second, third)
            for kind in ("access_token", "refresh_token")
        ]

    def keep_an_answer(self, visitor: Visitor, application: Application) -> None:
        """Refresh, so that the answer is kept in case that it was lost."""
        code, verifier = self.authorize(visitor, application)
        pair = application.exchange(code, code_verifier=verifier).json()
        assert application.refresh(pair["refresh_token"]).status_code == 200

    def authorize_devices(self, visitor: Visitor) -> None:
        """Let one device redeem its code, refuse a second one, and leave a third one waiting."""
        registered = self.auth.post(
            "/oauth/register",
            json={
                "client_name": "Tracker",
                "redirect_uris": [CALLBACK],
                "grant_types": [DEVICE_CODE],
            },
        ).json()
        named = {"client_id": registered["client_id"]}
        for decision, status in (("allow", 200), ("decline", 400), (None, 400)):
            codes = self.auth.post(
                "/oauth/device_authorization", data=named | {"scope": "read:profile"}
            ).json()
            user_code = self.secrets.note("user code", codes["user_code"])
            self.secrets.note("user code without hyphen", user_code.replace("-", ""))
            if decision is not None:
                page = visitor.follow(visitor.submit(visitor.get("/device"), user_code=user_code))
                assert visitor.submit(page, decision=decision).status_code == 200
            polled = self.auth.post(
                "/oauth/token",
                data=named | {"grant_type": DEVICE_CODE, "device_code": codes["device_code"]},
            )
            assert polled.status_code == status

    def decline(self, visitor: Visitor, application: Application) -> None:
        """Decline, and request things that do not exist."""
        for changed in ({}, {"scope": "read:minds"}):
            state = self.secrets.note_unlogged(
                "state", f"state-declined-{len(changed)}-of-a-client"
            )
            asked = visitor.get(application.authorize_path(state=state, **changed))
            if changed:
                # The last grant of the application is revoked: its errors are a page first.
                assert asked.status_code == 400
            else:
                asked = visitor.submit(visitor.follow(asked), decision="decline")
                assert parameters(asked)["state"] == [state]

    def misplace(self, application: Application, given: list[str]) -> None:
        """Send valid, expired and malformed tokens in wrong places."""
        note = self.secrets.note
        api_token = self.svc("token", "create", EMAIL, "--scope", "read:profile")
        assert self.me(api_token) == 200
        damaged = [
            note("wrong checksum", api_token[:-1] + ("A" if api_token[-1] != "A" else "B")),
            note("too short", api_token[:-10]),
            note("another prefix", f"svc_xx_{api_token[7:]}"),
            note("of another service", "ghp_0123456789abcdefghijABCDEFGHIJ012345"),
        ]
        for token in (*given, api_token, *damaged):
            bearer = {"Authorization": f"Bearer {token}"}
            elsewhere = {
                "User-Agent": token,
                "Referer": f"https://app.example/?token={token}",
                "Cookie": f"svc_session={token}; other={token}",
                "X-Forwarded-For": token,
                "Accept-Language": token,
            }
            if token.startswith("svc_"):
                # A proxy's own id is kept and logged, and a short foreign token could be one.
                elsewhere["X-Request-Id"] = token
            for client, path in (
                (self.api, ME),
                (self.auth, "/oauth/authorize"),
                (self.auth, "/sign-in"),
            ):
                query = {"access_token": token, "next": token, "client_id": token, "state": token}
                assert client.get(path, params=query, headers=elsewhere).status_code < 500
                assert client.get(f"{path}/{token}", headers=bearer).status_code < 500
            for path in ("/oauth/token", "/oauth/revoke", "/oauth/register", "/sign-in", "/join"):
                for body in (
                    {"json": {"token": token}},
                    {"data": {"nonsense": token}},
                    {"content": token},
                ):
                    sent = self.auth.post(path, params={"code": token}, headers=bearer, **body)
                    assert sent.status_code < 500
            application.refresh(token)
            application.exchange(token)
            application.revoke(token)
        assert self.me(api_token) == 401

    def connect(self, visitor: Visitor) -> None:
        """Connect with secrets, first wrongly, and send with the keys of applications, right and wrong."""
        note, path = self.secrets.note, "/settings/connections"

        def add(kind: str, **typed: str) -> httpx2.Response:
            page = visitor.get(f"{path}?new={kind}")
            found = [n for n, each in enumerate(forms(page)) if each.action == path]
            return visitor.submit(page, form=found[0], **typed)

        password = note("password of a calendar", "an owl that no page shows")
        for scheme, status in (("http", 400), ("https", 303)):
            address = note(
                f"{scheme} address", f"{scheme}://calendar.example/private-4711-of-alice"
            )
            added = add("calendar", field_address=address, field_password=password)
            assert added.status_code == status
            assert password not in added.text
        location = {"lat": "52.5", "lon": "13.4"}
        for kind in ("osmand", "listenbrainz"):
            (key,) = set(re.findall(r"svc_ik_[0-9A-Za-z]{71}", add(kind).text))
            wrong = note("key with a mistake", key[:-1] + ("A" if key[-1] != "A" else "B"))
            for each, is_right in ((key, True), (wrong, False)):
                if kind == "osmand":
                    sent = self.api.get(f"/receive/osmand/{each}", params=location)
                    assert (sent.status_code == 200) is is_right
                else:
                    sent = self.api.get("/1/validate-token", params={"token": each})
                    assert sent.json()["valid"] is is_right

    def register_with_secrets(self) -> None:
        """Register as a client does that thinks it has secrets to keep."""
        note = self.secrets.note
        members = {
            "redirect_uris": [CALLBACK],
            "client_secret": note("client secret", "client-secret-of-nobody"),
            "software_statement": note("software statement", "eyJhbGciOiJub25lIn0.e30.none"),
        }
        assert self.auth.post("/oauth/register", json=members).status_code == 201
        refused = self.auth.post(
            "/oauth/token",
            auth=("weekly", note("basic password", "basic-of-a-client")),
            data=members,
        )
        assert refused.status_code in (400, 401)

    def speak_nonsense(self, token: str) -> None:
        """Send text that is not HTTP to both servers, with a token in it."""
        for url in (self.service.auth_url, self.service.base_url):
            with socket.create_connection(("127.0.0.1", port_of(url)), timeout=60) as connection:
                connection.sendall(f"GET /{token} HTTP/9\r\n{token}\r\n\r\n".encode())
                assert connection.recv(4096).startswith(b"HTTP/1.1 400 ")

    def lose_the_database(self, directory: Path, token: str) -> None:
        """Call two more servers without a database."""
        note, chosen = self.secrets.note, self.service.settings
        auth_port, base_port, closed_port = processes.free_ports(3)
        chosen = replace(
            chosen,
            auth_url=f"http://localhost:{auth_port}",
            base_url=f"http://localhost:{base_port}",
        )

        def serve(kind: str, roles: Sequence[str], url: str) -> AbstractContextManager[int]:
            logins = {
                role: make_conninfo(login, host="127.0.0.1", port=closed_port)
                for role, login in processes.role_urls(chosen, roles).items()
            }
            log = directory / f"{kind}-without-database.log"
            return processes.running([kind, "serve"], chosen, logins, url, log)

        with (
            serve("auth", AUTH_ROLES, f"{chosen.auth_url}{processes.METADATA}"),
            observed(self.secrets, chosen.auth_url) as auth,
        ):
            visitor = Visitor(auth)
            password = note("password without database", "a heron without a river")
            page = visitor.get("/sign-in")
            assert visitor.submit(page, email=EMAIL, password=password).status_code == 503
            lost = Application(auth, tokens.mint_client_id())
            code = note("code without database", tokens.mint(tokens.CODE, tokens.NOBODY).text)
            assert lost.exchange(code).status_code == 503
            assert lost.revoke(token).status_code == 503
        with (
            serve("resource", RESOURCE_ROLES, f"{chosen.base_url}/healthz"),
            observed(self.secrets, chosen.base_url) as api,
        ):
            refused = api.get(ME, headers={"Authorization": f"Bearer {token}"})
            assert refused.status_code == 503


@contextmanager
def observed(secrets: Secrets, url: str) -> Iterator[httpx2.Client]:
    """A client of the server at ``url`` that records all secrets."""
    hooks: dict[str, list[Callable[..., Any]]] = {
        "request": [secrets.see_request],
        "response": [secrets.see_response],
    }
    with httpx2.Client(base_url=url, event_hooks=hooks, timeout=60) as client:
        yield client


def dump(deployment: Settings) -> str:
    """Return the whole contents of the database as text."""
    completed = subprocess.run(
        # Row-level security hides nothing from a superuser; another owner's dump lacks hidden rows.
        [str(binaries() / "pg_dump"), "--enable-row-security"],
        env=os.environ | libpq_environment(deployment.database_url or ""),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    return completed.stdout


def postgres_log(deployment: Settings) -> str:
    """Return the log of the embedded Postgres of the tests; empty if another one is used."""
    cluster = deployment.data_dir.parent / "postgres" / "postgres"
    return "".join(log.read_text(errors="replace") for log in sorted(cluster.glob("log/*.log")))


@pytest.mark.checklist(58)
def test_no_secret_of_a_run_is_in_the_database_or_in_a_log(
    deployment: Settings, owner: psycopg.Connection[Any], tmp_path: Path
) -> None:
    secrets = Secrets()
    kept = settings.read_secrets(deployment.data_dir)
    for role, password in kept.passwords.items():
        secrets.note(f"password of svc_{role}", password)
    secrets.note("cookie key", kept.cookie_key)
    assert kept.dashboard_key is not None
    secrets.note("dashboard key", kept.dashboard_key)
    chosen = replace(
        deployment,
        receivers=RECEIVERS,
        refresh_retry_s=30,
        device_authorization=True,
        sealing_public_key=sealing.public_key_of(sealing.new_private_key()),
    )
    with (
        processes.service(chosen, tmp_path) as service,
        observed(secrets, service.auth_url) as auth,
        observed(secrets, service.base_url) as api,
    ):
        run = Run(service, secrets, auth, api)
        visitor = run.sign_up()
        registered = auth.post(
            "/oauth/register", json={"client_name": "Weekly Report", "redirect_uris": [CALLBACK]}
        ).json()
        application = Application(auth, registered["client_id"])
        run.sign_in(visitor)
        given = run.exchange_and_refresh(visitor, application)
        run.authorize_devices(visitor)
        run.decline(visitor, application)
        run.misplace(application, given)
        run.register_with_secrets()
        run.connect(visitor)
        run.speak_nonsense(given[0])
        run.fail_to_sign_in()
        run.keep_an_answer(visitor, application)
        run.lose_the_database(tmp_path, given[0])

    stored = dump(deployment)
    assert owner.execute("select count(*) from oauth.refresh_retry").fetchone() == (1,)
    logs = {log.name: log.read_text(errors="replace") for log in sorted(tmp_path.glob("*.log"))}
    logs["postgres.log"] = postgres_log(deployment)

    # Permitted copies are found, so the search covers the right places.
    public = {EMAIL: "address", application.client_id: "client"}
    assert len(secrets_in(stored, public)) == len(public)
    assert all(hashlib.sha256(token.encode()).hexdigest() in stored for token in given)
    assert set(secrets.forbidden.values()) > {
        "svc_ac_",
        "svc_dc_",
        "svc_dt_",
        "svc_ik_",
        "svc_ln_",
        "svc_rq_",
        "svc_rt_",
        "svc_ss_",
        "cookie",
        "form token",
        "user code",
    }
    assert "starting PostgreSQL" in logs["postgres.log"] or "TEST_DATABASE_URL" in os.environ
    assert "route=token method=POST status=200" in logs["auth.log"]
    assert "route=me method=GET status=200" in logs["resource.log"]
    assert "route=receive_osmand method=GET status=200" in logs["resource.log"]
    assert "route=token method=POST status=503" in logs["auth-without-database.log"]
    assert "route=me method=GET status=503" in logs["resource-without-database.log"]
    assert secrets_in(stored, secrets.forbidden) == []
    for name, text in logs.items():
        assert (name, secrets_in(text, secrets.forbidden | secrets.unlogged)) == (name, [])
