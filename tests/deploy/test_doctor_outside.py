"""``svc doctor AUTH_URL BASE_URL`` against servers that are right, and behind proxies that are not."""

import json
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Final

import pytest

from deploy.doctor import checks, outside
from deploy.doctor.checks import Outcome, Result
from deploy.doctor.outside import Service
from deploy.doctor.web import Site
from shared.settings import Settings
from tests import https, processes
from tests.accepting import accepting
from tests.deploy.runner import SELF
from tests.waiting import wait_for

LOOPBACK: Final = "127.0.0.1"


@pytest.fixture(scope="module")
def served(
    deployment: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[processes.Service]:
    """Both servers, which uploads reach too."""
    uploading = replace(deployment, upload_dir=tmp_path_factory.mktemp("uploads"))
    with processes.service(uploading, tmp_path_factory.mktemp("logs")) as running:
        yield running


def examined(auth_url: str, base_url: str, name: str = "") -> list[Result]:
    """Return the results of the check of this name, by default of all."""
    listed = [check for check in outside.CHECKS if name in ("", check.name)]
    assert listed
    return list(checks.run(listed, Service(Site(auth_url), Site(base_url))))


def failures(auth_url: str, base_url: str, name: str) -> list[tuple[str, str]]:
    """Return texts and cures of the failures of a check."""
    results = examined(auth_url, base_url, name)
    return [(each.text, each.cure) for each in results if each.outcome is Outcome.FAILED]


def test_good_servers_pass_and_what_nobody_sees_is_skipped(served: processes.Service) -> None:
    completed = SELF.run({}, "doctor", served.auth_url, f"{served.base_url}/", "--json")

    document = json.loads(completed.stdout)
    outcomes = [(each["check"], each["outcome"]) for each in document["results"]]
    assert completed.returncode == 0, document
    assert outcomes == [
        ("connection", "passed"),
        ("connection", "passed"),
        ("plain http", "skipped"),
        ("plain http", "skipped"),
        ("probes", "passed"),
        ("probes", "passed"),
        ("issuer", "passed"),
        ("resource", "passed"),
        ("resource", "passed"),
        ("challenge", "passed"),
        ("headers", "passed"),
        ("headers", "skipped"),
        ("headers", "skipped"),
        ("clocks", "passed"),
        ("clocks", "passed"),
        ("bodies", "passed"),
        ("bodies", "passed"),
        ("client addresses", "skipped"),
    ]


def test_an_issuer_that_is_served_at_another_address(served: processes.Service) -> None:
    other = served.auth_url.replace("localhost", LOOPBACK)

    completed = SELF.run({}, "doctor", other, served.base_url)

    assert completed.returncode == 1
    assert (
        f"FAILED        issuer: the issuer is {served.auth_url}, and it is served at {other}:"
        " clients refuse it (RFC 8414)\n"
        f"              -> Set SVC_AUTH_URL={other} for both servers, or use the address that it names."
    ) in completed.stdout
    assert (
        f"names the authorization servers ['{served.auth_url}'], and not {other}"
        in completed.stdout
    )


def test_addresses_that_are_swapped(served: processes.Service) -> None:
    results = examined(served.base_url, served.auth_url)

    failed = {each.check for each in results if each.outcome is Outcome.FAILED}
    assert failed >= {"issuer", "resource", "challenge"}


def test_a_resource_that_is_served_at_another_address(served: processes.Service) -> None:
    other = served.base_url.replace("localhost", LOOPBACK)

    assert failures(served.auth_url, other, "resource")[0] == (
        f"the resource is {served.base_url}, and it is served at {other}",
        f"Set SVC_BASE_URL={other} for both servers, and run 'svc migrate'.",
    )
    assert failures(served.auth_url, other, "challenge") == [
        (
            f"the challenge of a 401 does not lead to {other}/.well-known/oauth-protected-resource",
            f"Set SVC_BASE_URL={other}, and let the proxy pass WWW-Authenticate on.",
        )
    ]


def test_servers_that_do_not_answer_are_one_failure_each() -> None:
    gone = "http://localhost:1"

    results = examined(gone, gone)

    by_outcome = {each.check: each.outcome for each in results}
    assert [each.outcome for each in results[:2]] == [Outcome.FAILED, Outcome.FAILED]
    assert by_outcome["issuer"] is by_outcome["clocks"] is Outcome.UNKNOWN
    assert checks.exit_status(results) == 1


@contextmanager
def nginx(directory: Path, *servers: str) -> Iterator[None]:
    """Run nginx with these servers."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin"
    program = shutil.which("nginx", path=path)
    assert program, "as root: apt-get install nginx"
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {directory}/{kind}; " for kind in kinds)
    configuration = directory / "nginx.conf"
    configuration.write_text(
        f"{'user root; ' if os.geteuid() == 0 else ''}daemon off; pid {directory}/pid; "
        f"events {{}} http {{ access_log off; {temporary} {' '.join(servers)} }}\n"
    )
    # However the tests end, the shell's standard input is closed then, and it ends nginx.
    script = '"$@" & proxy=$!; read -r line; kill $proxy; wait $proxy'
    with subprocess.Popen(
        ["sh", "-c", script, "sh", program, "-e", "stderr", "-c", str(configuration)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(timeout=60)


def test_a_proxy_with_small_bodies_and_changed_headers(
    served: processes.Service, tmp_path: Path
) -> None:
    auth_port, base_port = processes.free_ports(2)
    auth_url, base_url = f"http://localhost:{auth_port}", f"http://localhost:{base_port}"
    hidden = "".join(
        f"proxy_hide_header {name}; " for name in ("X-Frame-Options", "Content-Security-Policy")
    )
    # The name of the server is hidden from it, as by a proxy without proxy_set_header.
    host = served.auth_url.removeprefix("http://")
    with nginx(
        tmp_path,
        f"server {{ listen {LOOPBACK}:{auth_port}; location / {{ {hidden}"
        f" proxy_set_header Host {host}; proxy_pass {_backend(served.auth_url)}; }} }}",
        # The limit of nginx is 1 MiB by default, and it keeps bodies until they are complete.
        f"server {{ listen {LOOPBACK}:{base_port}; proxy_set_header Host $http_host;"
        f" location / {{ proxy_pass {_backend(served.base_url)}; }}"
        f" location /api/v1/imports/ {{ client_max_body_size 0;"
        f" proxy_pass {_backend(served.base_url)}; }} }}",
    ):
        wait_for(lambda: _answers(auth_port) and _answers(base_port), "nginx")
        bodies = failures(auth_url, base_url, "bodies")
        headers = failures(auth_url, base_url, "headers")

    assert bodies == [
        (
            "the proxy refuses bodies of 40 MiB (413), and the server accepts them",
            "Raise the limit of the proxy (nginx: client_max_body_size 40m).",
        ),
        (
            "the proxy keeps uploaded files until they are complete, or the server does not answer",
            "Switch that off for /api/v1/imports/ (nginx: proxy_request_buffering off).",
        ),
    ]
    assert headers == [
        (
            "the sign-in page lacks content-security-policy, x-frame-options, or the proxy has changed them",
            "Let the proxy pass the headers of the servers on unchanged.",
        )
    ]


def _backend(url: str) -> str:
    return url.replace("localhost", LOOPBACK)


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
        return True
    return False


def test_plain_http_that_does_not_redirect(served: processes.Service) -> None:
    plain = Site(served.auth_url)

    finding = outside.redirected(plain, Site("https://auth.example.org"))
    closed = outside.redirected(Site("http://localhost:1"), Site("https://auth.example.org"))

    assert finding.outcome is Outcome.FAILED
    assert finding.cure == (
        "Let the proxy answer plain http with 308 and the https address (deploy/proxy has samples)."
    )
    assert closed.outcome is Outcome.PASSED


@contextmanager
def answering(
    body: bytes = b"{}",
    headers: Mapping[str, str] | None = None,
    certificate: Path | None = None,
) -> Iterator[int]:
    """A host whose clock or certificate is wrong: it gives every request this answer."""
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    answer = "\r\n".join([*lines, "", ""]).encode() + body
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), closing(connection):
            connection.settimeout(30)
            if context is not None:
                connection = context.wrap_socket(connection, server_side=True)
            connection.recv(65536)
            connection.sendall(answer)
            connection.close()

    with (
        closing(socket.create_server((LOOPBACK, 0))) as listener,
        accepting(listener, serve),
    ):
        yield listener.getsockname()[1]


def test_a_clock_that_is_an_hour_late(served: processes.Service) -> None:
    late = datetime.now(UTC) - timedelta(hours=1)
    with answering(headers={"Date": format_datetime(late, usegmt=True)}) as port:
        ((text, cure),) = failures(served.auth_url, f"http://localhost:{port}", "clocks")

    assert text.startswith(f"the clock of http://localhost:{port} differs by -36")
    assert cure == "Synchronise the clock of that machine, or of this one, by NTP."


def certify(path: Path, name: str, days: float, of_days: float) -> Path:
    """Write a certificate that signs itself, for ``of_days`` of which so many are left."""
    end = timedelta(days=days)
    certificate, key = https.signed_by_itself([name], end - timedelta(days=of_days), end)
    path.write_bytes(https.pem(key) + https.pem(certificate))
    return path


@pytest.mark.parametrize(
    ("name", "days", "of_days", "is_trusted", "text", "cure"),
    [
        (
            "localhost",
            60,
            90,
            False,
            "the certificate of localhost is not valid: self-signed certificate",
            "Install a certificate of an authority that browsers know, as Caddy and certbot get one.",
        ),
        (
            "localhost",
            -1,
            90,
            True,
            "the certificate of localhost is not valid: certificate has expired",
            "Renew the certificate, and let the proxy load it.",
        ),
        (
            "other.example.org",
            60,
            90,
            True,
            "the certificate of localhost is not valid: Hostname mismatch, certificate is not valid for"
            " 'localhost'.",
            "Install a certificate that has this name.",
        ),
        (
            "localhost",
            5.01,
            90,
            True,
            "the certificate of localhost ends in 5 days",
            "Renew the certificate, and find out why that did not happen by itself.",
        ),
        (
            "localhost",
            0.76,
            6,
            True,
            "the certificate of localhost ends in 18 hours",
            "Renew the certificate, and find out why that did not happen by itself.",
        ),
        ("localhost", 60, 90, True, None, None),
        # Caddy's own authority issues certificates of twelve hours, and Let's Encrypt has some of six days.
        ("localhost", 0.2, 0.5, True, None, None),
        ("localhost", 2, 6, True, None, None),
    ],
    ids=[
        "self-signed",
        "expired",
        "other-name",
        "ends-soon",
        "short-ends",
        "valid",
        "hours",
        "six",
    ],
)
def test_certificates(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    days: float,
    of_days: float,
    is_trusted: bool,
    text: str | None,
    cure: str | None,
) -> None:
    certificate = certify(tmp_path / "host.pem", name, days, of_days)
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with answering(certificate=certificate) as port:
        url = f"https://localhost:{port}"
        found = failures(url, url, "connection")

    assert found == ([] if text is None else [(text, cure)] * 2)


def test_words_that_are_no_addresses_are_refused() -> None:
    one = SELF.run({}, "doctor", "https://auth.example.org")
    path = SELF.run({}, "doctor", "https://auth.example.org/a", "https://api.example.org")

    assert one.returncode == path.returncode == 2
    assert "either no address, or those of both servers: AUTH_URL BASE_URL" in one.stderr
    assert "'https://auth.example.org/a' must look like https://host" in path.stderr
