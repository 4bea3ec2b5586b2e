"""The start of ``svc up``: everything that must be ready before the servers start.

It checks the addresses, starts the embedded PostgreSQL, brings the schema up to date and makes the first
account's link. Then it replaces the image of this process by the supervisor's, which begins without
secrets and threads; the process id, the child PostgreSQL and the lock of the data directory stay.
"""

import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Final, NoReturn
from urllib.parse import urlsplit

import psycopg

from authserver.people import first_account
from deploy import resealing
from deploy.migrate import MigrationError, migrate
from deploy.postgres.embedded import EmbeddedError, EmbeddedPostgres, make_data_dir
from deploy.runner.output import say
from deploy.runner.signals import Signals, Stopped
from deploy.runner.supervisor import Plan, RestartPolicy, RunError, Server
from shared import database, lifeline, listening, sealing, sealing_keys, settings
from shared.listening import AddressError, Listen
from shared.settings import Settings, SettingsError

RESTART_POLICY: Final = RestartPolicy()
# What could log in as a stronger role than a server's own.
_OWNERS_VARIABLES: Final = ("DATABASE_URL", "DATABASE_URL_FILE", "PGPASSWORD", "PGPASSFILE")


@dataclass(frozen=True)
class _Service:
    """One of the two servers, before the logins of its roles are known."""

    name: str
    command: str
    url_setting: str
    url: str
    listen: Listen
    probe: str
    roles: tuple[str, ...]


def run(chosen: Settings) -> int:
    """Start everything, and become the supervisor; return an exit status where the start does not succeed.

    It is 0 when a signal asked for the end and 1 when something failed, which one line says.
    """
    say(f"Data directory: {chosen.data_dir}")
    signals = Signals()
    if chosen.lifeline is not None:
        # Its thread must take no signal that the next image is to find pending.
        signals.block()
        lifeline.watch(chosen.lifeline)
        signals.unblock()
    try:
        with ExitStack() as running:
            _run(chosen, signals, running)
    except Stopped:
        say("Stopped")
        return 0
    except (RunError, AddressError, EmbeddedError, MigrationError, SettingsError) as error:
        say(f"svc: {error}", is_error=True)
    return 1


def _run(chosen: Settings, signals: Signals, running: ExitStack) -> NoReturn:
    """Prepare everything, leaving the end of what was started to ``running``, and become the supervisor."""
    services = _services(chosen)
    _check_addresses(chosen, services)
    if not chosen.trusted_proxies:
        for service in services:
            listening.check_served(service.url_setting, service.url, service.listen)
    make_data_dir(chosen.data_dir)
    chosen = _with_sealing_keys(chosen)
    postgres = None
    url, name = chosen.database_url, "DATABASE_URL"
    if url is None:
        _check_roles(chosen)
        postgres = EmbeddedPostgres(chosen.data_dir, say=say, pause=signals.pause)
        running.callback(postgres.stop)
        postgres.start()
        url, name = postgres.url, "the embedded PostgreSQL"
        chosen = replace(chosen, database_url=url)
    with signals.urgent():
        _check_database(url, name)
        migrate(chosen, say)
        chosen = _with_newest_key_alone(chosen, url)
        welcome = _welcome(chosen)
    _warn_of_shortages(chosen, services)
    plan = Plan(
        servers=[*(_server(service, chosen) for service in services), *_worker(chosen)],
        postgres=None if postgres is None else postgres.hand_over(),
        lifeline=chosen.lifeline,
        notify_socket=chosen.notify_socket,
        welcome=welcome,
        restart_policy=RESTART_POLICY,
    )
    _become_supervisor(plan, chosen, signals)


def _become_supervisor(plan: Plan, chosen: Settings, signals: Signals) -> NoReturn:
    """Replace the image of this process. Signals stay pending until the supervisor can handle them."""
    # The plan holds passwords, so it is in neither the arguments nor the environment.
    with tempfile.TemporaryFile("w+", encoding="utf-8", dir=chosen.data_dir) as file:
        json.dump(asdict(plan), file)
        file.seek(0)
        os.set_inheritable(file.fileno(), True)
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("SVC_") and name not in _OWNERS_VARIABLES
        }
        command = [sys.executable, "-P", "-m", "deploy.runner.supervisor"]
        command += [str(file.fileno()), str(len(plan.servers))]
        signals.block()
        try:
            signals.check()
            os.execve(sys.executable, command, inherited)  # noqa: S606 -- the command is our own
        finally:
            signals.unblock()


def _services(chosen: Settings) -> tuple[_Service, _Service]:
    return (
        _Service(
            name="authorization server",
            command="auth",
            url_setting="SVC_AUTH_URL",
            url=chosen.auth_url,
            listen=chosen.auth_listeners,
            probe="/.well-known/oauth-authorization-server",
            roles=("authserver",),
        ),
        _Service(
            name="resource server",
            command="resource",
            url_setting="SVC_BASE_URL",
            url=chosen.base_url,
            listen=chosen.base_listeners,
            probe="/healthz",
            # It writes what applications send as the importer.
            roles=("reader", "ingester", "worker", *(("importer",) if chosen.receivers else ())),
        ),
    )


def _server(service: _Service, chosen: Settings) -> Server:
    role_urls = {role: database.role_url(chosen, role) for role in service.roles}
    # Each server gets its own key alone.
    is_auth = service.command == "auth"
    own = replace(
        chosen,
        lifeline=None,
        notify_socket=None,
        auth_internal_url=chosen.auth_internal_url or _internal_url(chosen),
        # Nothing else could answer meanwhile, and Ctrl-C would take longer.
        drain_s=0,
        sealing_private_keys=(),
        cookie_key=chosen.cookie_key if is_auth else None,
        dashboard_key=None if is_auth else chosen.dashboard_key,
        worker=chosen.jobs,
    )
    return Server(
        name=service.name,
        label=_label(chosen, service.command),
        command=[service.command, "serve"],
        url=service.url,
        host=urlsplit(service.url).netloc,
        # The name in the public address need not stand for this machine.
        addresses=[
            (host, address.port)
            for address in service.listen.addresses
            for host in address.reachable_hosts
        ],
        probe=service.probe,
        variables=settings.environment(own, role_urls),
    )


def _label(chosen: Settings, name: str) -> str:
    """Return what the lines of a process begin with: nothing before JSON, which names the process itself."""
    return f"{name}: " if chosen.log_format == "text" else ""


def _internal_url(chosen: Settings) -> str | None:
    """Return where the resource server reaches the authorization server behind a reverse proxy, which may be
    unreachable from inside, or have a certificate that only browsers of its people trust."""
    for address in chosen.auth_listen:
        return f"http://{replace(address, host=address.reachable_hosts[0])}"
    return None


def _worker(chosen: Settings) -> Iterator[Server]:
    """Yield the worker beside both servers, unless no background jobs are to run."""
    if chosen.jobs:
        role_urls = {role: database.role_url(chosen, role) for role in chosen.connections_of_worker}
        yield Server(
            name="worker",
            label=_label(chosen, "worker"),
            command=["resource", "work"],
            variables=settings.environment(
                replace(
                    chosen, lifeline=None, notify_socket=None, cookie_key=None, dashboard_key=None
                ),
                role_urls,
            ),
        )


# The keys that seal the secrets of connections


def _with_sealing_keys(chosen: Settings) -> Settings:
    """Return the settings with the keys of the data directory, unless the operator has set keys."""
    if chosen.sealing_public_key is None:
        private_keys = sealing_keys.make(chosen.data_dir)
        public = sealing.public_key_of(private_keys[0])
        return replace(chosen, sealing_public_key=public, sealing_private_keys=private_keys)
    if chosen.jobs and not chosen.sealing_private_keys:
        raise RunError(
            "SVC_SEALING_PUBLIC_KEY is set and SVC_SEALING_PRIVATE_KEYS is not: the worker could not "
            "open what the servers seal"
        )
    return chosen


def _with_newest_key_alone(chosen: Settings, url: str) -> Settings:
    """Finish what ``svc sealing rotate`` began: no server and no worker knows an older key yet."""
    private_keys = chosen.sealing_private_keys
    if len(private_keys) < 2 or private_keys != sealing_keys.read(chosen.data_dir):
        return chosen
    try:
        resealed = resealing.reseal(url, private_keys)
    except psycopg.Error as error:
        raise RunError(f"secrets cannot be sealed to the new key: {_one_line(error)}") from error
    if resealed.unopened:
        say(f"svc: no key opens {resealed.unopened} of the secrets of connections", is_error=True)
        return chosen
    sealing_keys.keep_newest(chosen.data_dir)
    say(f"Sealed the secrets of connections to the new key: {resealed.changed}")
    return replace(chosen, sealing_private_keys=private_keys[:1])


# What can be known to fail before anything is started


def _check_addresses(chosen: Settings, services: tuple[_Service, _Service]) -> None:
    """Raise AddressError or RunError where a server could not listen."""
    first, second = (service.listen for service in services)
    of_metrics = (chosen.auth_metrics, chosen.base_metrics, chosen.worker_metrics)
    for one, other in combinations((first, second, *of_metrics), 2):
        both = one.overlap(other)
        if both is not None:
            whose = "server" if other is second else "of them"
            named = (
                ", which SVC_AUTH_LISTEN and SVC_BASE_LISTEN can name" if other is second else ""
            )
            raise RunError(
                f"{one.source} and {other.source} both say to listen on {both}: each {whose} needs an "
                f"address of its own{named}"
            )
    for listen in (first, second, *of_metrics):
        for listener in listening.bind(listen):
            listener.close()


def _check_roles(chosen: Settings) -> None:
    if chosen.role_urls:
        raise RunError(
            f"SVC_{next(iter(chosen.role_urls)).upper()}_DATABASE_URL is set and DATABASE_URL is "
            "not: which server is to be used?"
        )


def _check_database(url: str, name: str) -> None:
    """Raise RunError where the database refuses the login; ``name`` says which database it is."""
    timeout = psycopg.conninfo.conninfo_to_dict(url).get("connect_timeout", 5)
    try:
        psycopg.connect(url, connect_timeout=timeout).close()
    except psycopg.Error as error:
        raise RunError(f"{name} cannot be reached: {_one_line(error)}") from error


def _warn_of_shortages(chosen: Settings, services: tuple[_Service, _Service]) -> None:
    """Say where the database takes fewer connections than servers and worker together may open."""
    of_servers = replace(chosen, worker=chosen.jobs).connections
    needed = Counter({role: of_servers[role] for service in services for role in service.roles})
    if chosen.jobs:
        needed.update(chosen.connections_of_worker)
    role_urls = {role: database.role_url(chosen, role) for role in needed}
    for line in database.connection_shortages(role_urls, needed):
        say(f"svc: {line}", is_error=True)


def _welcome(chosen: Settings) -> str:
    """Return the text with all addresses, the one to open first at its end."""
    try:
        link = first_account.link(chosen)
    except psycopg.Error as error:
        raise RunError(f"the first account's link cannot be made: {_one_line(error)}") from error
    if link is None:
        beginning, address = "Your pages:", f"{chosen.base_url}/"
    else:
        beginning = "Open this link to create the first account. It works once, within 24 hours:"
        address = link
    return f"""
Authorization server   {chosen.auth_url}
Resource server        {chosen.base_url}

Try it:
    curl {chosen.base_url}/healthz

Ctrl-C stops everything, and the data is kept.

{beginning}

    {address}
"""


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split()) or type(error).__name__
