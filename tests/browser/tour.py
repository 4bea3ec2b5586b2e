"""A walk through every page, in the order in which a new person meets them.

Each stop leaves the browser on a page for the caller to examine: the accessibility test, or the script that
takes pictures (``make screenshots``). The service has a provider, so that the pages about it are included.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import httpx2
import psycopg
from playwright.sync_api import Locator, Page

from authserver.people import external_sign_ins, first_account
from shared import dashboard, sealing
from shared.connections import RECEIVERS
from shared.dashboard import DASHBOARD_CLIENT_ID
from shared.settings import Provider, Settings
from tests import processes
from tests.cli.terminal import Terminal
from tests.oauth.conftest import store_dashboard
from tests.oauth.visitor import CHALLENGE
from tests.pages.issuer import CLIENT_ID, CLIENT_SECRET, listening

PASSWORD: Final = "an owl reads under the lamp"
EMAIL: Final = "alice@example.org"
PROVIDER: Final = "Example"


@contextmanager
def server_with_provider(chosen: Settings, directory: Path) -> Iterator[Settings]:
    """Run both servers and a provider with open sign-in until the end of the block.

    After signing in, a browser goes to the resource server.
    """
    auth_port, base_port = processes.free_ports(2)
    with listening() as issuer:
        chosen = replace(
            chosen,
            auth_url=f"http://localhost:{auth_port}",
            base_url=f"http://localhost:{base_port}",
            upload_dir=directory / "uploads",
            receivers=RECEIVERS,
            sealing_public_key=sealing.public_key_of(sealing.new_private_key()),
            device_authorization=True,
            provider=Provider(issuer.url, CLIENT_ID, CLIENT_SECRET, PROVIDER),
        )
        issuer.redirect_uri = f"{chosen.auth_url}{external_sign_ins.CALLBACK}"
        with (
            processes.running(
                ["auth", "serve", "--workers=1"],
                chosen,
                processes.role_urls(chosen, processes.AUTH_ROLES),
                f"{chosen.auth_url}{processes.METADATA}",
                directory / "auth.log",
            ),
            processes.running(
                ["resource", "serve"],
                chosen,
                processes.role_urls(chosen, processes.RESOURCE_ROLES),
                f"{chosen.base_url}/healthz",
                directory / "resource.log",
            ),
        ):
            yield chosen


def reset_link(chosen: Settings, email: str) -> str:
    """Return the link that the operator's command prints for an account.

    The command runs an event loop of its own, and Playwright's counts as running in this thread.
    """
    with ThreadPoolExecutor(1) as other:
        result = other.submit(Terminal(chosen).run, f"user reset-link {email}").result()
    assert result.exit_code == 0, result.output
    return result.stdout.strip()


@dataclass
class Tour:
    """A walk of one person in one browser, on a service without accounts."""

    page: Page
    settings: Settings
    owner: psycopg.Connection[Any]
    seen: set[str] = field(default_factory=set)
    """The paths that were requested with GET."""

    def stops(self) -> Iterator[str]:
        """Go from page to page, and yield the name of each while it is open."""
        self.page.on("request", self._note)
        for part in (
            self._joining,
            self._api_access,
            self._consent,
            self._device,
            self._connected_apps,
            self._bring,
            self._connections,
            self._categories,
            self._goals,
            self._devices,
            self._account,
            self._provider,
            self._signing_in,
            self._errors,
            self._leaving,
        ):
            yield from part()

    def _note(self, request: Any) -> None:
        if request.method == "GET":
            self.seen.add(httpx2.URL(request.url).path)

    def _open(self, path: str) -> None:
        self.page.goto(path if "://" in path else f"{self.settings.auth_url}{path}")

    def _fill(self, label: str, text: str) -> None:
        self.page.get_by_label(label, exact=True).fill(text)

    def _press(self, name: str) -> None:
        self._click(self.page.get_by_role("button", name=name, exact=True).first)

    def _click(self, control: Locator) -> None:
        """Click a link or button and wait for the next page."""
        with self.page.expect_navigation():
            control.click()

    def _at_provider(self, begin: str, answer: str) -> None:
        self._press(f"{begin} {PROVIDER}")
        self._click(self.page.get_by_role("link", name=answer))

    def _joining(self) -> Iterator[str]:
        link = first_account.link(self.settings)
        assert link is not None
        self._open(link)
        yield "join"
        self._fill("E-mail address", EMAIL)
        self._fill("Password", "password1234")
        self._press("Create account")
        yield "join-refused"
        self._fill("Password", PASSWORD)
        self._press("Create account")
        yield "welcome"
        # With JavaScript the answer replaces the page without a navigation.
        self.page.get_by_role("button", name="Create the key").click()
        self.page.locator("[data-tracker] summary").click()
        yield "welcome-key"
        self._open("/welcome")
        yield "welcome-key-gone"
        self._open("/welcome/another")
        yield "welcome-another"
        self._open("/settings")
        yield "settings"

    def _api_access(self) -> Iterator[str]:
        self._open("/settings/api-access")
        yield "api-access-empty"
        self._fill("Name", "   ")
        self._press("Create token")
        yield "api-access-refused"
        for name, preset in (("Laptop tracker", "A tracker"), ("Notebook", "All reading")):
            self._open("/settings/api-access")
            self._fill("Name", name)
            self.page.get_by_label(preset).check()
            self._press("Create token")
        yield "api-access-made"
        self._open("/settings/api-access")
        yield "api-access"
        self._click(self.page.get_by_role("link", name="Revoke").first)
        yield "revoke-token"

    def _consent(self) -> Iterator[str]:
        # An assistant on the person's machine gets further scopes offered.
        for name, redirect_uri, scope, path in (
            ("consent", "https://report.example/callback", "read:activity read:profile", ""),
            (
                "consent-loopback",
                "http://127.0.0.1:9/callback",
                "read:health ingest:health",
                "/mcp",
            ),
            (
                "consent-private-use",
                "com.example.app:/callback",
                "read:music ingest:app_sessions",
                "",
            ),
        ):
            address = self._authorization(redirect_uri, scope, name)
            self._open(f"{address}&{urlencode({'resource': f'{self.settings.base_url}{path}'})}")
            yield name
        store_dashboard(self.owner, self.settings.base_url)
        self._grant(DASHBOARD_CLIENT_ID)
        own = dashboard.redirect_uri(self.settings.base_url)
        self._open(self._path(DASHBOARD_CLIENT_ID, own, "read:activity read:music read:profile"))
        yield "consent-own-pages"

    def _device(self) -> Iterator[str]:
        registered = httpx2.post(
            f"{self.settings.auth_url}/oauth/register",
            json={
                "client_name": "Tracker",
                "redirect_uris": ["http://127.0.0.1:9/callback"],
                "grant_types": ["urn:ietf:params:oauth:grant-type:device_code"],
            },
        )
        codes = httpx2.post(
            f"{self.settings.auth_url}/oauth/device_authorization",
            data={"client_id": registered.json()["client_id"], "scope": "ingest:app_sessions"},
        )
        self._open("/device")
        yield "device-code"
        self._fill("Code", "BCDF-GHJK")
        self._press("Continue")
        yield "device-code-unknown"
        self._open(codes.json()["verification_uri_complete"])
        yield "device-code-of-a-link"
        self._press("My device shows this code")
        yield "consent-device"
        self._press("Decline")
        yield "device-declined"

    def _authorization(self, redirect_uri: str, scope: str, name: str) -> str:
        registered = httpx2.post(
            f"{self.settings.auth_url}/oauth/register",
            json={"client_name": f"Weekly Report ({name})", "redirect_uris": [redirect_uri]},
        )
        self._grant(registered.json()["client_id"])
        return self._path(registered.json()["client_id"], redirect_uri, scope)

    def _path(self, client_id: str, redirect_uri: str, scope: str) -> str:
        query = httpx2.QueryParams(
            response_type="code",
            client_id=client_id,
            redirect_uri=redirect_uri,
            scope=scope,
            state="xyz",
            code_challenge=CHALLENGE,
            code_challenge_method="S256",
        )
        return f"/oauth/authorize?{query}"

    def _grant(self, client_id: str) -> None:
        """Consent to an application, so that a later request with more scopes marks them as new."""
        self.owner.execute(
            """
            with granted as (
                insert into oauth.grant (user_id, client_id, scopes)
                select user_id, %s, '{read:activity}'
                  from identity.user
                returning user_id, grant_id
            )
            insert into oauth.refresh_token (user_id, token_hash, grant_id, expires_at)
            select user_id, sha256(grant_id::text::bytea), grant_id, now() + interval '90 days'
              from granted
            """,
            [client_id],
        )

    def _connected_apps(self) -> Iterator[str]:
        self._open("/settings/apps")
        yield "connected-apps"
        self._click(self.page.get_by_role("link", name="Revoke access").first)
        yield "revoke-app"

    def _bring(self) -> Iterator[str]:
        self._open("/settings/bring")
        yield "bring-empty"
        self._import()
        self._open("/settings/bring")
        for summary in self.page.locator("#lists summary, #from-git summary").all():
            # The page reads its lists again meanwhile, and a click might hit what has moved there.
            summary.evaluate("summary => { summary.parentElement.open = true; }")
        yield "bring"
        with self.page.expect_navigation():
            # With JavaScript the page has another form instead.
            self.page.evaluate("document.querySelector('[data-plain]').submit()")
        yield "bring-upload"
        self._open("/settings/bring?problem=storage_full")
        yield "bring-refused"
        self._click(self.page.get_by_role("link", name="Remove the import").first)
        yield "bring-undo"

    def _import(self) -> None:
        """Have had the person bring two files, one of which is being read."""
        self.owner.execute(
            """
            with brought as (
                insert into profile.import (
                    user_id, file_name, file_size, digest, status, problem, finished_at, ignored,
                    ignored_names
                )
                select user_id, name, 48000000, sha256(name::bytea), status, problem, ended_at, ignored, names
                  from identity.user,
                       (
                           values ('my_spotify_data.zip', 'done', null, now(), 1, array['ReadMeFirst.pdf']),
                                  ('takeout-20250601T090000Z-001.zip', 'running', null, null, 0, '{}'),
                                  ('IMG_0001.jpeg', 'failed',
                                   'no format recognises it; it looks like a JPEG picture', now(), 0, '{}')
                       ) as file (name, status, problem, ended_at, ignored, names)
                returning user_id, import_id, status
            ),
            turn as (
                insert into svc.turn (user_id, kind, leased_until)
                select user_id, 'import', now() + interval '1 hour'
                  from identity.user
            ),
            part as (
                insert into profile.import_part (
                    user_id, import_id, name, position, format, records, added, refused, first_at,
                    last_at, problem
                )
                select user_id, import_id, 'Streaming_History_Audio_2014-2016_0.json', 0, 'spotify_extended',
                       48823, 48211, 612, '2014-03-02 18:12Z', '2025-05-20 22:01Z',
                       'the file ends in the middle of a value, in line 1203'
                  from brought
                 where status <> 'failed'
                returning user_id, import_id, name
            ),
            upload as (
                insert into profile.upload (user_id, ticket_hash, status, file_name, length, received)
                select user_id, sha256('a'), 'receiving', 'export.zip', 48000000, 16000000
                  from identity.user
            )
            insert into profile.import_refusal (user_id, import_id, name, reason, count, examples)
            select user_id, import_id, name, 'episodes_are_not_kept', 612,
                   array['{"ts": "2020-01-04T10:11:12Z", "ms_played": 3600000, "episode_name": "Tides"}']
              from part
            """
        )

    def _connections(self) -> Iterator[str]:
        self._open("/settings/connections?back=/sources")
        yield "connections-empty"
        self._click(self.page.get_by_role("link", name="Calendar", exact=True))
        yield "connection-new-pulled"
        self._fill("Address", "http://calendar.example/a.ics")
        self._fill("Application password", "an owl")
        self._press("Connect")
        yield "connection-refused"
        self._fill("Name", "\N{CALENDAR} The calendar of the whole department of natural history")
        self._fill("Address", "https://calendar.example/a.ics")
        self._press("Connect")
        yield "connection-pulled"
        for kind, stop in (("wakatime", "file"), ("overland", "code"), ("osmand", "addresses")):
            self._open(f"/settings/connections?new={kind}")
            if kind == "wakatime":
                yield "connection-new-key"
            self._press("Make its key")
            yield f"connection-key-{stop}"
        self._receive()
        self._open("/settings/connections")
        yield "connections"
        self._click(self.page.get_by_role("link", name="Open: Overland"))
        yield "connection-received"
        self._press("Pause")
        yield "connection-paused"
        self._press("Make a new key")
        yield "connection-key-new"
        self._click(self.page.get_by_role("link", name="I have kept the key"))
        self._click(self.page.get_by_role("link", name="Disconnect"))
        yield "connection-end"
        self._press("Disconnect")
        yield "connections-ended"

    def _receive(self) -> None:
        """Have had one connection receive records, one wait, and one fail."""
        self.owner.execute(
            """
            update profile.connection
               set first_record_at = now(),
                   last_record_at = now(),
                   record_count = 12345
             where kind in ('overland', 'wakatime')
            """
        )
        self.owner.execute(
            """
            update profile.connection
               set problem = 'not_a_calendar',
                   failing_since = now() - interval '3 hours',
                   last_pull_at = now() - interval '5 minutes'
             where kind = 'calendar'
            """
        )

    def _categories(self) -> Iterator[str]:
        self._open("/settings/categories")
        yield "categories-empty"
        self._record()
        self._open("/settings/categories")
        yield "categories"
        self.page.get_by_label("Put the items that I choose below into").select_option("Reference")
        self._click(self.page.get_by_role("button", name="above: tides.example"))
        self.page.get_by_label("What it looks at").select_option("Window title")
        self.page.get_by_label("How it compares").select_option("contains")
        self._fill("With what", "tide")
        self._press("See what it matches")
        yield "categories-preview"
        self.page.locator("#category").fill("Field work")
        self._press("Add rule")
        self.page.locator("#scored").fill("Field work")
        self.page.get_by_label("Counts as").select_option("Productive")
        self._press("Save")
        yield "categories-sorted"
        self.page.get_by_label("How it compares").select_option("matches the expression")
        self._fill("With what", "(?=tide)")
        self._press("Add rule")
        yield "categories-refused"
        self._open("/settings/categories?domain=tides.example&back=/day/2026-11-21")
        yield "category"
        self._click(self.page.get_by_role("button", name="Writing"))
        yield "category-chosen"

    def _record(self) -> None:
        """Have had the person do something yesterday."""
        self.owner.execute(
            """
            with laptop as (
                insert into activity.device (user_id, name)
                select user_id, 'laptop' from identity.user
                    on conflict (user_id, name) do update set platform = null
                returning user_id, device_id
            )
            insert into activity.app_session (
                user_id, device_id, idempotency_key, app, title, domain, started_at, ended_at
            )
            select user_id, device_id, n::text, app, title, domain,
                   now() - n * interval '2 hours',
                   now() - n * interval '2 hours' + minutes * interval '1 minute'
              from laptop,
                   (
                       values (1, 'Firefox', 'The tide table, hour by hour', 'tides.example', 95),
                              (2, 'Mystery Tool', 'Tide gauge 7', null, 61),
                              (3, 'com.example.a.very.long.name.of.an.application', null, null, 24),
                              (4, 'Firefox', 'New tab', null, 3),
                              (5, 'Code', 'main.py', null, 80)
                   ) as done (n, app, title, domain, minutes)
            """
        )

    def _goals(self) -> Iterator[str]:
        self._open("/settings/goals?back=/week/2026-W47")
        yield "goals-empty"
        self._fill("how much", "25")
        self.page.get_by_label("counting", exact=True).select_option("only the category")
        self.page.get_by_label("on", exact=True).select_option("the days that I choose")
        self._press("Add goal")
        yield "goals-refused"
        self._fill("how much", "3")
        self.page.get_by_label("counting", exact=True).select_option("all of it")
        self.page.get_by_label("Tuesday").check()
        self.page.get_by_label("Saturday").check()
        self._press("Add goal")
        yield "goals-added"
        self._fill("how much", "1.5")
        self.page.get_by_label("I want", exact=True).select_option("At most")
        self.page.get_by_label("of", exact=True).select_option("distracting time")
        self._fill("Title", "Read more, scroll less")
        self._press("Add goal")
        self._click(self.page.get_by_role("button", name="Pause").first)
        yield "goals-paused"
        self._click(self.page.get_by_role("link", name="Change").last)
        yield "goals-change"
        self._open("/settings/goals")
        self._click(self.page.get_by_role("button", name="Remove").first)
        yield "goals-removed"

    def _devices(self) -> Iterator[str]:
        self._open("/settings/devices?back=/sources")
        yield "devices"
        self._click(self.page.get_by_role("link", name="Change").first)
        yield "device"
        self._fill("Your name for it", "\u202elaptop")
        self._press("Save name")
        yield "device-refused"
        self._fill("Your name for it", "The laptop at work")
        self._press("Save name")
        self._press("Retire it")
        yield "device-retired"
        self._open("/settings/devices")
        yield "devices-retired"

    def _account(self) -> Iterator[str]:
        self._open("/settings/account")
        yield "account"
        self._fill("Time zone", "Mars/Olympus Mons")
        self._press("Save")
        yield "account-refused"
        self._fill("Display name", "Alice Liddell")
        self._fill("Time zone", "Europe/Berlin")
        self._press("Save")
        yield "account-saved"
        for name, path in (
            ("sign-in-methods", "/settings/account/sign-in"),
            ("sessions", "/settings/account/sessions"),
            ("events", "/settings/account/events"),
            ("download", "/settings/account/download"),
            ("delete", "/settings/account/delete"),
        ):
            self._open(path)
            yield name
        self._open("/settings/account/download")
        self._press("Create a token for ten minutes")
        yield "download-made"

    def _provider(self) -> Iterator[str]:
        self._open("/settings/account/sign-in")
        self._at_provider("Connect", "Stop")
        yield "provider-stopped"
        self._open("/settings/account/sign-in")
        self._at_provider("Connect", "Continue")
        yield "sign-in-methods-connected"

    def _signing_in(self) -> Iterator[str]:
        self._open("/confirmed")
        yield "confirmed"
        self._open("/settings/account/delete")
        self.page.get_by_role("textbox").last.fill("alice")
        self.owner.execute(
            "update identity.session set authenticated_at = now() - interval '1 hour'"
        )
        self._click(self.page.get_by_role("button", name="Delete"))
        yield "delete-not-fresh"
        self._open("/settings/api-access")
        yield "api-access-not-fresh"
        self._open("/confirm?next=/settings/api-access")
        yield "confirm"
        self._open("/sign-out")
        yield "sign-out"
        self._press("Sign out")
        self._open("/sign-in")
        yield "sign-in"
        self._fill("E-mail address", EMAIL)
        self._fill("Password", "not the password")
        self._press("Sign in")
        yield "sign-in-refused"
        self._at_provider("Sign in with", "Stop")
        yield "sign-in-stopped"
        self._open(reset_link(self.settings, EMAIL))
        yield "reset"
        self._fill("New password", PASSWORD)
        self._press("Set password and sign in")
        self._open("/confirmed")
        yield "confirmed"

    def _errors(self) -> Iterator[str]:
        self._open("/nowhere")
        yield "error-404"
        self._open("/oauth/authorize?client_id=nobody")
        yield "error-400"
        self._open("/oauth/consent?request=nothing")
        yield "error-request-gone"
        self._open("/join?link=nothing")
        yield "error-link-gone"
        self._open("/settings/account")
        self.page.evaluate("document.querySelector('.out [name=csrf]').value = 'x'")
        self._press("Sign out")
        yield "error-403"
        with self._broken():
            self._open("/settings/apps")
            yield "error-500"

    def _broken(self) -> Any:
        """Break the service for the time of a block."""
        return _Renamed(self.owner.execute)

    def _leaving(self) -> Iterator[str]:
        self._open("/settings/account/delete")
        self.page.get_by_role("textbox").last.fill(EMAIL)
        self._click(self.page.get_by_role("button", name="Delete"))
        yield "goodbye"


@dataclass(frozen=True)
class _Renamed:
    """A table at a wrong place."""

    execute: Callable[..., Any]

    def __enter__(self) -> None:
        self.execute("alter view oauth.live_grant rename to lost")

    def __exit__(self, *_: object) -> None:
        self.execute("alter view oauth.lost rename to live_grant")
