"""`svc up` behind the reverse proxies of deploy/proxy: two names on one port, over https.

The proxies are Debian's, and their configurations are the files that operators copy. Only the names,
addresses and the certificate are replaced, as the comments in these files describe.
"""

import hashlib
import json
import os
import shutil
import socket
import ssl
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx2
import psycopg
import pytest
from cryptography.hazmat.primitives import serialization
from playwright.sync_api import Browser, Page, expect

from deploy.doctor import checks, outside, web
from deploy.migrate import migrate
from shared.settings import Settings
from tests import https
from tests.browser.conftest import ARGUMENTS, chromium_path, expect_signed_in
from tests.browser.test_authorization import sign_in
from tests.browser.test_passkeys import AUTHENTICATOR, add
from tests.conftest import Person
from tests.deploy.conftest import reachable_directory
from tests.deploy.runner import Runner
from tests.people.test_throttle import WRONG, Place
from tests.processes import free_ports
from tests.uploads.conftest import PATH as IMPORTS
from tests.uploads.conftest import sender
from tests.waiting import wait_for

Rows = psycopg.Connection[Any]

ROOT = Path(__file__).parent.parent.parent
AUTH: Final = "auth.svc.example"
BASE: Final = "api.svc.example"
METADATA: Final = "/.well-known/oauth-authorization-server"


@dataclass(frozen=True)
class Certificate:
    """A certificate for both names, and its key."""

    chain: Path
    key: Path
    pin: str
    """The hash of its public key, which Chromium is started with to trust it."""


@dataclass(frozen=True)
class Site:
    """Both servers behind a proxy, which listens on one port."""

    port: int
    plain_port: int
    auth_listen: str
    base_listen: str
    certificate: Certificate
    directory: Path

    @property
    def auth_url(self) -> str:
        """The issuer."""
        return f"https://{AUTH}:{self.port}"

    @property
    def base_url(self) -> str:
        """The resource server."""
        return f"https://{BASE}:{self.port}"


class OnThisMachine(httpx2.HTTPTransport):
    """Connects to this machine, whatever the name in the address is."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the loopback address, with the name in TLS and in the Host header."""
        named = request.url
        request.extensions = {**request.extensions, "sni_hostname": named.host}
        request.url = named.copy_with(host="127.0.0.1")
        try:
            return super().handle_request(request)
        finally:
            request.url = named


@contextmanager
def client(site: Site, url: str, *, source: str = "127.0.0.1") -> Iterator[httpx2.Client]:
    """A client that trusts the site's certificate and connects from the address ``source``."""
    trust = ssl.create_default_context(cafile=str(site.certificate.chain))
    transport = OnThisMachine(verify=trust, local_address=source)
    with httpx2.Client(base_url=url, transport=transport, timeout=60) as opened:
        yield opened


def certify(directory: Path) -> Certificate:
    """Make a certificate that is good for two months."""
    certificate, key = https.signed_by_itself([AUTH, BASE], timedelta(hours=-1), timedelta(days=60))
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    made = Certificate(
        directory / "chain.pem",
        directory / "key.pem",
        b64encode(hashlib.sha256(public).digest()).decode(),
    )
    made.chain.write_bytes(https.pem(certificate))
    made.key.write_bytes(https.pem(key))
    return made


@pytest.fixture(scope="module")
def site(deployment: Settings) -> Iterator[Site]:
    """`svc up` with public addresses over https and private ones to listen on."""
    assert deployment.database_url is not None
    port, plain_port, auth_port, base_port = free_ports(4)
    with reachable_directory() as directory:
        data_dir = directory / "data"
        data_dir.mkdir()
        # The roles belong to the whole server of this test run, and so do their passwords.
        shutil.copy(deployment.data_dir / "secrets.json", data_dir)
        made = Site(
            port,
            plain_port,
            f"127.0.0.1:{auth_port}",
            f"[::1]:{base_port}",
            certify(directory),
            directory,
        )
        variables = {
            "DATABASE_URL": deployment.database_url,
            "SVC_DATA_DIR": str(data_dir),
            "SVC_AUTH_URL": made.auth_url,
            "SVC_BASE_URL": made.base_url,
            "SVC_AUTH_LISTEN": made.auth_listen,
            "SVC_BASE_LISTEN": made.base_listen,
            "SVC_TRUSTED_PROXIES": "127.0.0.1,::1",
        }
        with Runner(directory, variables) as runner:
            runner.wait_until_up()
            yield made


def replaced(sample: Path, changes: dict[str, str]) -> str:
    """Return the text of a sample file with the replacements that its first comment lists."""
    text = sample.read_text()
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


def names(site: Site) -> dict[str, str]:
    """Return the replacements that both samples name."""
    return {
        "127.0.0.1:8400": site.auth_listen,
        "127.0.0.1:8401": site.base_listen,
        "auth.example.org": AUTH,
        "api.example.org": BASE,
    }


def nginx(site: Site) -> list[str]:
    """Write nginx's configuration, and return the command that runs it."""
    sample = replaced(
        ROOT / "deploy/proxy/nginx.conf",
        names(site)
        | {
            "/etc/ssl/svc/chain.pem": str(site.certificate.chain),
            "/etc/ssl/svc/key.pem": str(site.certificate.key),
            # Ports that need no privileges and are reachable only from this machine.
            "listen 443 ": f"listen 127.0.0.1:{site.port} ",
            "listen [::]:443 ": f"listen [::1]:{site.port} ",
            "listen 80;": f"listen 127.0.0.1:{site.plain_port};",
            "listen [::]:80;": f"listen [::1]:{site.plain_port};",
        },
    )
    (site.directory / "svc.conf").write_text(sample)
    own = site.directory / "nginx"
    own.mkdir(exist_ok=True)
    temporary = "".join(
        f"{kind}_temp_path {own}/{kind}; "
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration = site.directory / "nginx.conf"
    configuration.write_text(
        f"{'user root; ' if os.geteuid() == 0 else ''}daemon off; pid {own}/pid; "
        f"events {{}} http {{ access_log off; {temporary} include {site.directory}/svc.conf; }}\n"
    )
    return ["nginx", "-e", "stderr", "-c", str(configuration)]


def caddy(site: Site) -> list[str]:
    """Write Caddy's configuration, and return the command that runs it."""
    certificate = f"tls {site.certificate.chain} {site.certificate.key}"
    sample = replaced(
        ROOT / "deploy/proxy/Caddyfile",
        names(site)
        | {
            # Instead of a certificate that Caddy would get, and ports that an ordinary user may have.
            f"\n{name} {{\n": f"\nhttps://{name}:{site.port} {{\n\t{certificate}\n"
            for name in (AUTH, BASE)
        },
    )
    options = (
        f"{{\n\tadmin off\n\tdefault_bind 127.0.0.1\n"
        f"\thttp_port {site.plain_port}\n\thttps_port {site.port}\n}}\n"
    )
    configuration = site.directory / "Caddyfile"
    configuration.write_text(options + sample)
    return ["caddy", "run", "--adapter", "caddyfile", "--config", str(configuration)]


# However the tests end, the shell's standard input is closed then, and it ends the proxy.
WITH_LIFELINE: Final = '"$@" & proxy=$!; read -r line; kill $proxy; wait $proxy'


@pytest.fixture(scope="module", params=[nginx, caddy], ids=["nginx", "caddy"])
def front(request: pytest.FixtureRequest, site: Site) -> Iterator[Site]:
    """The site with a proxy in front of it."""
    command = request.param(site)
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin"
    assert shutil.which(command[0], path=path), f"as root: apt-get install {command[0]}"
    log = site.directory / f"{command[0]}.log"
    with (
        log.open("w") as output,
        subprocess.Popen(
            ["sh", "-c", WITH_LIFELINE, "sh", *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={"PATH": path, "HOME": str(site.directory)},
        ) as process,
    ):
        try:
            with client(site, site.auth_url) as asking:
                wait_for(
                    lambda: answers(asking) or process.poll() is not None, "an answer of the proxy"
                )
            assert process.poll() is None, log.read_text()
            yield site
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=60)


def answers(asking: httpx2.Client) -> bool:
    try:
        return asking.get(METADATA).status_code == 200
    except httpx2.TransportError:
        return False


@pytest.fixture
def page(chromium: Browser, front: Site, owner: Rows) -> Iterator[Page]:
    """A page of a Chromium that finds the two names on this machine and trusts their certificate."""
    browser = chromium.browser_type.launch(
        executable_path=chromium_path(),
        args=[
            *ARGUMENTS,
            "--host-resolver-rules=MAP *.svc.example 127.0.0.1",
            f"--ignore-certificate-errors-spki-list={front.certificate.pin}",
        ],
    )
    context = browser.new_context()
    context.set_default_timeout(30_000)
    yield context.new_page()
    browser.close()


def test_a_person_signs_in_with_a_cookie_that_is_sent_over_https_alone(
    page: Page, front: Site, person: str
) -> None:
    answer = page.goto(f"{front.auth_url}/settings/account/sessions")
    assert answer is not None
    sign_in(page, person)
    expect(page.get_by_role("heading", level=1)).to_have_text("Where you are signed in")

    cookies = page.context.cookies()
    assert answer.headers["strict-transport-security"] == "max-age=63072000"
    assert page.url.startswith(front.auth_url)
    assert "__Host-svc_session" in {cookie["name"] for cookie in cookies}
    for cookie in cookies:
        assert cookie["name"].startswith("__Host-")
        assert (cookie["secure"], cookie["httpOnly"], cookie["domain"]) == (True, True, AUTH)


def test_a_person_sees_their_day_although_no_server_trusts_the_proxys_certificate(
    page: Page, front: Site, person: str, deployment: Settings
) -> None:
    # Stores the dashboard, which the end of another test has removed.
    migrate(replace(deployment, base_url=front.base_url), lambda _: None)
    page.goto(f"{front.base_url}/")
    sign_in(page, person)
    page.get_by_role("button", name="Allow").click()

    page.wait_for_url(f"{front.base_url}/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Today")


def test_a_passkey_belongs_to_the_public_name(page: Page, front: Site, person: str) -> None:
    tools = page.context.new_cdp_session(page)
    tools.send("WebAuthn.enable")
    made = tools.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    page.goto(f"{front.auth_url}/settings/account/sign-in")
    sign_in(page, person)

    add(page)
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("button", name="Sign in with a passkey").click()

    expect_signed_in(page, front, "alice@example.org")
    kept = tools.send("WebAuthn.getCredentials", made)
    assert [each["rpId"] for each in kept["credentials"]] == [AUTH]


def test_the_doctor_passes_every_check(front: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    look_up = socket.getaddrinfo

    def on_this_machine(host: str, *words: Any, **named: Any) -> Any:
        return look_up("127.0.0.1" if host in (AUTH, BASE) else host, *words, **named)

    monkeypatch.setattr(socket, "getaddrinfo", on_this_machine)
    monkeypatch.setenv("SSL_CERT_FILE", str(front.certificate.chain))
    service = outside.Service(web.Site(front.auth_url), web.Site(front.base_url))

    results = list(checks.run(outside.CHECKS, service))

    assert [each for each in results if each.outcome not in ("passed", "skipped")] == []
    # The site has a port of its own, and nobody sees from outside whose address is counted.
    assert {each.check for each in results if each.outcome == "skipped"} == {
        "plain http",
        "client addresses",
    }
    plain = outside.redirected(
        web.Site(f"http://{AUTH}:{front.plain_port}"), web.Site(f"https://{AUTH}")
    )
    assert plain.outcome == "passed"
    assert plain.text.endswith("redirects to https")


def test_both_servers_publish_their_public_addresses(front: Site) -> None:
    with client(front, front.auth_url) as auth, client(front, front.base_url) as base:
        issuer = auth.get(METADATA)
        resource = base.get("/.well-known/oauth-protected-resource")
        health = base.get("/healthz")

    assert issuer.json()["issuer"] == front.auth_url
    assert resource.json()["authorization_servers"] == [front.auth_url]
    assert resource.json()["resource"] == front.base_url
    assert health.status_code == 200
    assert health.headers["strict-transport-security"] == "max-age=63072000"


def test_plain_http_redirects_to_https(front: Site) -> None:
    answer = httpx2.get(f"http://127.0.0.1:{front.plain_port}/sign-in", headers={"Host": AUTH})

    assert answer.status_code == 308
    assert answer.headers["location"].startswith(f"https://{AUTH}")


def test_the_clients_real_address_counts(front: Site, person: str, owner: Rows) -> None:
    with client(front, front.auth_url, source="127.0.0.2") as guessing:
        status = Place(guessing, "192.0.2.7").enter(person, WRONG).status_code

    noted = owner.execute("select distinct address from identity.security_event").fetchall()
    assert status == 400
    assert noted == [("127.0.0.2",)]


EVENT: Final = {"app": "Code", "started_at": "2025-06-16T09:00:00Z", "duration_ms": 60_000}


def body(size: int) -> bytes:
    """Return an ingest request of this many bytes, most of them blank."""
    text = json.dumps({"events": [EVENT]}).encode()
    return text[:-1] + b" " * (size - len(text)) + text[-1:]


def test_thirty_mebibytes_are_ingested_and_more_than_forty_refused(
    front: Site, alice: Person
) -> None:
    headers = alice.headers() | {"Content-Type": "application/json"}
    with client(front, front.base_url) as tracker:
        taken = tracker.post(
            "/api/v1/ingest/app-sessions", content=body(30 * 1024 * 1024), headers=headers
        )
    with client(front, front.base_url) as tracker:
        refused = tracker.post(
            "/api/v1/ingest/app-sessions", content=body(41 * 1024 * 1024), headers=headers
        )

    assert taken.json()["accepted"] == 1
    assert refused.status_code == 413


def test_the_refusal_of_a_token_arrives_although_the_body_is_large(front: Site) -> None:
    headers = {"Authorization": "Bearer nonsense", "Content-Type": "application/json"}
    with client(front, front.base_url) as tracker:
        refused = tracker.post(
            "/api/v1/ingest/app-sessions", content=body(30 * 1024 * 1024), headers=headers
        )

    assert refused.status_code == 401
    assert refused.json()["error"] == "unauthorized"


def test_a_file_larger_than_any_other_body_is_uploaded_through_the_proxy(
    front: Site, alice: Person
) -> None:
    with client(front, front.base_url) as sending:
        whole, pieces = sender(sending, alice), sender(sending, alice)
        form = sending.post(
            IMPORTS,
            data={"ticket": whole.ticket.text},
            files={"file": ("a.bin", b"x" * (41 * 1024 * 1024))},
        )
        pieces.create(8 * 1024 * 1024 + 1)
        first = pieces.send(0, b"x" * (8 * 1024 * 1024))
        offset = pieces.look().headers["upload-offset"]

    assert (form.status_code, form.headers["location"]) == (303, f"{front.auth_url}/settings/bring")
    assert (first.status_code, offset) == (204, str(8 * 1024 * 1024))


def test_an_export_is_streamed_through_the_proxy(
    front: Site, alice: Person, owner: Rows, deployment: Settings
) -> None:
    owner.execute(
        "insert into activity.device (user_id, name) values (%s, 'laptop')", [alice.user_id]
    )
    with (
        slow_locks(owner),
        psycopg.connect(deployment.database_url or "") as other,
        client(front, front.base_url) as reading,
    ):
        # The resource that the export reads last must wait.
        other.execute("lock table content.calendar_event in access exclusive mode")
        headers = alice.headers() | {"Accept-Encoding": "identity"}
        with reading.stream("GET", "/api/v1/export", headers=headers) as answer:
            pieces = answer.iter_raw()
            first = next(pieces)
            wait_for(lambda: is_waiting(other), "an export that waits")
            other.rollback()
            rest = b"".join(pieces)

    assert first.startswith(b'{"exported_at":')
    assert [each["name"] for each in json.loads(first + rest)["resources"]["devices"]] == ["laptop"]


@contextmanager
def slow_locks(owner: Rows) -> Iterator[None]:
    """Set the lock timeout of the reader's role to 20 s."""
    row = owner.execute("select current_database()").fetchone()
    assert row is not None
    setting = f'alter role svc_reader in database "{row[0]}"'
    owner.execute(f"{setting} set lock_timeout = '20s'")
    yield
    owner.execute(f"{setting} reset lock_timeout")


def is_waiting(connection: Rows) -> bool:
    row = connection.execute(
        "select exists (select from pg_locks"
        "  where not granted and relation = 'content.calendar_event'::regclass)"
    ).fetchone()
    return row == (True,)
