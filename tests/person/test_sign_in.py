"""``svc login`` and ``svc logout``: the whole way through both servers, with the real consent page."""

import json
import os
import pty
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, cast
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest

from shared.settings import Settings
from tests import processes
from tests.client import NO_TLS
from tests.conftest import Person
from tests.oauth.conftest import visitor_of
from tests.oauth.visitor import Visitor, forms
from tests.person.conftest import MakeTerminal, Terminal
from tests.processes import Service
from tests.waiting import wait_for

NOWHERE = "http://localhost:1"
READ = "read:activity read:code read:health read:location read:music read:content read:profile"


@pytest.fixture(scope="module")
def service(deployment: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Both servers."""
    with processes.service(deployment, tmp_path_factory.mktemp("servers")) as started:
        yield started


@dataclass
class Browser(webbrowser.BaseBrowser):
    """The person's browser: it decides on the consent page, and follows the redirect to the command."""

    visitor: Visitor
    decision: str = "allow"
    unticked: tuple[str, ...] = ()
    changes: dict[str, str] = field(default_factory=dict)
    """Changes of an attacker to the address of the redirect."""
    pages: list[httpx2.Response] = field(default_factory=list)
    """The answers of the command."""

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:  # noqa: ARG002 -- the library's
        """Visit an address, as ``webbrowser`` wants it."""
        location = self.decide(url)
        if self.changes:
            parts = urlsplit(location)
            given = {name: values[0] for name, values in parse_qs(parts.query).items()}
            query = urlencode({**given, **self.changes})
            self.pages.append(httpx2.get(parts._replace(query=query).geturl(), verify=NO_TLS))
        if "iss" not in self.changes:
            self.pages.append(httpx2.get(location, verify=NO_TLS))
        return True

    def decide(self, url: str) -> str:
        """Decide about an authorization request; return the address of the redirect."""
        page = self.visitor.follow(self.visitor.get(url))
        scopes = [value for name, value in forms(page)[0].fields if name == "scope"]
        kept = [scope for scope in scopes if scope not in self.unticked]
        answer = self.visitor.submit(page, decision=self.decision, scope=kept)
        location: str = answer.headers["location"]
        return location


@pytest.fixture
def browser(service: Service, alice: Person, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    """The browser of this machine, in which alice is signed in."""
    with httpx2.Client(base_url=service.auth_url, verify=NO_TLS) as client:
        opened = Browser(visitor_of(client, service.settings, alice))
        monkeypatch.setattr(webbrowser, "get", lambda: opened)
        yield opened


@pytest.fixture
def terminal(service: Service, make_terminal: MakeTerminal) -> Terminal:
    """A terminal on the machine of that browser."""
    return make_terminal(service.base_url)


def live_grants(alice: Person) -> list[list[str]]:
    """Return the scopes of each live grant."""
    rows = alice.connection.execute(
        "select scopes from oauth.grant where user_id = %s and revoked_at is null", [alice.user_id]
    )
    return [scopes for (scopes,) in rows]


def test_a_person_signs_in_with_the_scopes_that_they_tick(
    browser: Browser, terminal: Terminal, alice: Person
) -> None:
    browser.unticked = ("read:health", "read:profile")

    done = terminal.run("login")

    assert done.exit_code == 0, done.output
    granted = "read:activity read:code read:location read:music read:content"
    assert done.stdout.endswith(f"Signed in at {terminal.settings.base_url}. Granted: {granted}\n")
    assert live_grants(alice) == [granted.split()]
    assert terminal.file.stat().st_mode & 0o777 == 0o600
    assert terminal.file.parent.stat().st_mode & 0o777 == 0o700
    (page,) = wait_for(lambda: browser.pages, "the answer of the command")
    assert page.status_code == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    read = terminal.run("apps")
    assert read.exit_code == 0, read.output
    assert "Days begin in UTC: without read:profile" in read.stderr
    token = terminal.stored()["tokens"]["access_token"]
    assert token not in done.output + repr(done)


def test_a_new_sign_in_replaces_and_revokes_the_one_before(
    browser: Browser, terminal: Terminal, alice: Person
) -> None:
    terminal.run("login")
    first = terminal.stored()

    done = terminal.run("login", "--scope", "read:activity")

    assert done.exit_code == 0, done.output
    assert live_grants(alice) == [["read:activity"]]
    assert terminal.stored()["client_id"] != first["client_id"]


def test_a_declined_consent_keeps_the_login(
    browser: Browser, terminal: Terminal, alice: Person
) -> None:
    terminal.run("login")
    before = terminal.stored()
    browser.decision = "decline"

    done = terminal.run("login")

    assert done.exit_code == 1
    assert done.stderr == "Error: the access was declined in the browser\n"
    assert terminal.stored() == before
    assert len(live_grants(alice)) == 1


def test_an_answer_of_another_attempt_is_refused_and_ends_nothing(
    browser: Browser, terminal: Terminal
) -> None:
    browser.changes = {"state": "x", "code": "y"}

    done = terminal.run("login")

    assert done.exit_code == 0, done.output
    wait_for(lambda: len(browser.pages) == 2, "both answers of the command")
    assert [page.status_code for page in browser.pages] == [400, 200]


def test_an_answer_of_another_authorization_server_is_not_redeemed(
    browser: Browser, terminal: Terminal, alice: Person
) -> None:
    browser.changes = {"iss": "http://localhost:1"}

    done = terminal.run("login")

    assert done.exit_code == 1
    assert "the answer names another authorization server" in done.stderr
    assert not terminal.file.exists()


def environment(terminal: Terminal) -> dict[str, str]:
    """Return the environment of a command that is a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SVC_")}
    return kept | {
        "SVC_BASE_URL": terminal.settings.base_url,
        "XDG_CONFIG_HOME": str(terminal.settings.config_dir.parent),
    }


def test_the_address_of_a_browser_on_another_machine_may_be_pasted(
    browser: Browser, terminal: Terminal
) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "deploy.cli", "login", "--no-browser"],
        env=environment(terminal),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as command:
        assert command.stdout is not None
        # Ends with the output, whatever the command prints.
        address = next(line for line in command.stdout if line.startswith("http"))
        os.write(ours, b"http://127.0.0.1:1/callback?code=x\n")
        os.write(ours, f"{browser.decide(address.strip())}\n".encode())
        rest = command.stdout.read()
    for each in (ours, theirs):
        os.close(each)

    assert command.returncode == 0, rest
    assert "This is not it: the address begins with http://127.0.0.1:" in rest
    assert f"Granted: {READ}\n" in rest
    assert browser.pages == []


def test_eight_commands_at_once_refresh_once(
    browser: Browser, terminal: Terminal, service: Service
) -> None:
    terminal.run("login")
    terminal.expire()
    spent = terminal.stored()["tokens"]["refresh_token"]
    before = refreshes(service)

    commands = [
        subprocess.Popen(
            [sys.executable, "-m", "deploy.cli", "apps", "--json"],
            env=environment(terminal),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(8)
    ]
    ended = [(command.communicate(timeout=60)[0], command.returncode) for command in commands]

    assert [status for _, status in ended] == [0] * 8, ended
    assert refreshes(service) == before + 1
    assert terminal.stored()["tokens"]["refresh_token"] != spent
    assert terminal.run("apps").exit_code == 0


def refreshes(service: Service) -> int:
    """Return how many token pairs the server has issued."""
    return sum(
        " route=token " in line and " status=200 " in line
        for line in service.auth_log.read_text().splitlines()
    )


def test_a_token_that_was_revoked_alone_is_renewed(
    browser: Browser, terminal: Terminal, service: Service
) -> None:
    terminal.run("login")
    revoked = terminal.stored()["tokens"]["access_token"]
    httpx2.post(f"{service.auth_url}/oauth/revoke", data={"token": revoked}, verify=NO_TLS)

    done = terminal.run("apps")

    assert done.exit_code == 0, done.output
    assert terminal.stored()["tokens"]["access_token"] != revoked


def test_a_disk_without_room_is_noticed_before_the_refresh_token_is_spent(
    browser: Browser, terminal: Terminal
) -> None:
    terminal.run("login")
    terminal.expire()
    obstacle = terminal.file.with_name("login.json.new")
    obstacle.mkdir()

    refused = terminal.run("apps")
    obstacle.rmdir()

    assert refused.stderr == f"Error: {obstacle}: Is a directory\n"
    assert terminal.run("apps").exit_code == 0


def test_a_pair_whose_writer_was_killed_before_the_rename_is_used(
    browser: Browser, terminal: Terminal
) -> None:
    terminal.run("login")
    terminal.expire()
    spent = terminal.stored()
    terminal.run("apps")
    # What a kill leaves behind: the new login beside the old one.
    terminal.file.rename(terminal.file.with_name("login.json.new"))
    terminal.store(spent)

    done = terminal.run("apps")

    assert done.exit_code == 0, done.output
    assert terminal.stored()["tokens"]["refresh_token"] != spent["tokens"]["refresh_token"]
    assert not terminal.file.with_name("login.json.new").exists()


def test_after_revocation_the_person_signs_in_again(
    browser: Browser, terminal: Terminal, alice: Person
) -> None:
    terminal.run("login")
    alice.connection.execute(
        "update oauth.grant set revoked_at = now() where user_id = %s", [alice.user_id]
    )

    done = terminal.run("today")

    ended = f"Error: the access at {terminal.settings.base_url} has ended: run 'svc login'\n"
    assert (done.exit_code, done.stderr) == (1, ended)


def test_signing_out_revokes_the_access_and_removes_the_tokens(
    browser: Browser, terminal: Terminal, alice: Person
) -> None:
    terminal.run("login")

    done = terminal.run("logout")

    assert (done.exit_code, done.stdout) == (
        0,
        f"Signed out of {terminal.settings.base_url}\n",
    )
    assert live_grants(alice) == []
    assert not terminal.file.exists()
    again = terminal.run("logout")
    assert (again.exit_code, again.stderr) == (1, "Error: not signed in: run 'svc login'\n")


def test_signing_out_without_the_server_keeps_the_tokens_unless_local(
    browser: Browser, terminal: Terminal, alice: Person
) -> None:
    terminal.run("login")
    terminal.store(terminal.stored() | {"revocation_endpoint": f"{NOWHERE}/oauth/revoke"})

    refused = terminal.run("logout")
    assert refused.exit_code == 1
    assert refused.stderr.startswith(f"Error: {NOWHERE} cannot be reached: ")
    assert terminal.file.exists()

    assert terminal.run("logout", "--local").exit_code == 0
    assert not terminal.file.exists()
    assert len(live_grants(alice)) == 1


@dataclass
class Keyring:
    """The functions of the package ``keyring``, whose real backends need the session of a desktop."""

    kept: dict[tuple[str, str], str] = field(default_factory=dict)
    priority: float = 5

    def get_keyring(self) -> "Keyring":
        return self

    def get_password(self, service: str, name: str) -> str | None:
        return self.kept.get((service, name))

    def set_password(self, service: str, name: str, secret: str) -> None:
        self.kept[service, name] = secret

    def delete_password(self, service: str, name: str) -> None:
        del self.kept[service, name]


def test_a_keyring_keeps_the_tokens_instead_of_the_file(
    browser: Browser, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = terminal.run("login", "--keyring")
    assert missing.stderr == "Error: --keyring needs the package keyring, which is not here\n"
    keyring = Keyring()
    monkeypatch.setitem(sys.modules, "keyring", cast("ModuleType", keyring))

    done = terminal.run("login", "--keyring")

    assert done.exit_code == 0, done.output
    assert "svc_" not in terminal.file.read_text().replace("svc_client_", "")
    ((key, first),) = keyring.kept.items()
    keyring.kept[key] = json.dumps(json.loads(first) | {"expires_at": 0})
    assert terminal.run("apps").exit_code == 0
    assert json.loads(keyring.kept[key])["refresh_token"] != json.loads(first)["refresh_token"]
    assert terminal.run("logout").exit_code == 0
    assert keyring.kept == {}
    keyring.priority = 0.5
    weak = terminal.run("login", "--keyring")
    assert weak.stderr == "Error: this machine has no keyring that can keep tokens\n"


def test_a_new_login_in_the_file_leaves_no_tokens_in_the_keyring(
    browser: Browser, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = Keyring()
    monkeypatch.setitem(sys.modules, "keyring", cast("ModuleType", keyring))
    terminal.run("login", "--keyring")

    done = terminal.run("login")

    assert done.exit_code == 0, done.output
    assert keyring.kept == {}
    assert terminal.run("apps").exit_code == 0


def test_a_login_that_others_may_read_is_closed_to_them(
    browser: Browser, terminal: Terminal
) -> None:
    terminal.run("login")
    terminal.file.chmod(0o644)

    done = terminal.run("apps")

    assert done.exit_code == 0
    assert "was open to other users of this machine, and is closed now" in done.stderr
    assert terminal.file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("server", "message"),
    [
        (NOWHERE, f"{NOWHERE} cannot be reached: "),
        ("{auth_url}", "{auth_url} does not answer as this service does; is the address right?"),
        (
            "http://127.0.0.1:{port}",
            "the server at http://127.0.0.1:{port} calls itself {base_url}",
        ),
    ],
)
def test_a_server_that_is_another_one_is_named(
    service: Service, terminal: Terminal, server: str, message: str
) -> None:
    names: dict[str, Any] = {
        "auth_url": service.auth_url,
        "base_url": service.base_url,
        "port": urlsplit(service.base_url).port,
    }

    done = terminal.run("login", "--server", server.format(**names))

    assert done.exit_code == 1
    assert done.stderr.startswith(f"Error: {message.format(**names)}")
