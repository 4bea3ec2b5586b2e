"""All settings, read once from the environment; no other module reads it.

A secret may be given as NAME or, better, as NAME_FILE with the path of a file that contains it; the
file wins. A setting that cannot be used stops the start of every process with one line, which names all
such settings, says why, and repeats no secret.

A new setting needs:

1. a field of Settings, below which stands its text: the name of its variable, a colon, and what it means.
   From this text ``svc settings`` makes deploy/svc.env.example. Say the default in the text if it is not
   the field's own, with the words "by default". A secret has ``repr=False``;
2. a line in ``_read``, whose function raises a Fault for what cannot be used, and a line in ``environment``;
3. examples in tests/unit/settings_examples.py: one value that can be used, and those that cannot, each with
   the words of its Fault. The tests fail without them, and try them;
4. ``make settings``, and a row in the table of docs/OPERATING.md if operators should know of it first.
"""

import json
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from ipaddress import ip_network
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from shared import connections, listening, private_file
from shared.listening import Address, Listen

ROLES: Final = ("authserver", "reader", "ingester", "importer", "worker")
"""The database roles that servers log in as; in the database each has the prefix ``svc_``."""
IMPORTS: Final = 2
"""The most uploaded files that one worker imports at once; each of another person."""
PULLS: Final = 8
"""From how many services one worker pulls at once; each for another person. They share two connections to the
database."""
PROBES: Final = 2
"""Connections of each process for its probes (shared/probes.py)."""

Deployment = Literal["self_hosted", "hosted"]
LogFormat = Literal["text", "json"]


class SettingsError(Exception):
    """A setting that is missing or wrong; the message is one line that names it."""


class Fault(SettingsError):
    """Why a variable, or several together, cannot be used."""

    def __init__(self, reason: str, *names: str) -> None:
        """``names`` are the variables without which the others can be read."""
        super().__init__(reason)
        self.names = names


@dataclass(frozen=True)
class Provider:
    """An OpenID Connect provider at which people may sign in; the operator configures all of it."""

    issuer: str
    """SVC_PROVIDER_ISSUER: the issuer of an OpenID Connect provider at which people may sign in too,
    exactly as the provider spells it. It needs the id, the secret and the name below."""
    client_id: str
    """SVC_PROVIDER_CLIENT_ID: the id of this service at the provider."""
    client_secret: str = field(repr=False)
    """SVC_PROVIDER_CLIENT_SECRET: the secret of this service at the provider."""
    name: str
    """SVC_PROVIDER_NAME: the name that people know, for buttons and sentences."""
    domains: tuple[str, ...] = ()
    """SVC_PROVIDER_DOMAINS: with commas between them, the domains of verified e-mail addresses whose owners
    may create an account; by default everybody needs an invitation."""
    logout_ends_grants: bool = False
    """SVC_PROVIDER_LOGOUT_ENDS_GRANTS: whether a logout that the provider announces ends the API tokens of
    the person and the access of applications too."""


@dataclass(frozen=True)
class Settings:
    """The operator's settings. Each field names its variable."""

    auth_url: str = "http://localhost:8400"
    """SVC_AUTH_URL: the issuer, and the public address of the authorization server."""
    base_url: str = "http://localhost:8401"
    """SVC_BASE_URL: the public address of the resource server."""
    auth_internal_url: str | None = None
    """SVC_AUTH_INTERNAL_URL: the address at which the resource server reaches the authorization server; by
    default SVC_AUTH_URL. People never see it. It is needed where the public name does not resolve inside."""
    auth_listen: tuple[Address, ...] = ()
    """SVC_AUTH_LISTEN: where the authorization server listens, such as 127.0.0.1:8400 or [::1]:8400, with
    commas between several; by default localhost with the port of SVC_AUTH_URL."""
    base_listen: tuple[Address, ...] = ()
    """SVC_BASE_LISTEN: the same for the resource server; by default the port of SVC_BASE_URL."""
    auth_metrics_listen: tuple[Address, ...] = ()
    """SVC_AUTH_METRICS_LISTEN: where the authorization server answers with its metrics, such as
    127.0.0.1:9400; the second of several processes listens on the port after it, and so on. By default
    nowhere, and nothing is measured."""
    base_metrics_listen: tuple[Address, ...] = ()
    """SVC_BASE_METRICS_LISTEN: the same for the resource server."""
    worker_metrics_listen: tuple[Address, ...] = ()
    """SVC_WORKER_METRICS_LISTEN: the same for the worker."""
    data_dir: Path = Path(".data")
    """SVC_DATA_DIR: the directory of the embedded database and of generated passwords and keys; by default
    /var/lib/svc for root, else .data."""
    state_dir: Path = Path("~/.local/state/svc")
    """The directory svc in XDG_STATE_HOME: the state of commands that send from this machine."""
    config_dir: Path = Path("~/.config/svc")
    """The directory svc in XDG_CONFIG_HOME: the login of the person who uses this machine (``svc login``)."""
    database_url: str | None = field(default=None, repr=False)
    """DATABASE_URL: a login that may create roles, as postgresql://user:password@host/database; by default
    ``svc up`` starts an embedded PostgreSQL."""
    role_urls: Mapping[str, str] = field(default_factory=dict, repr=False)
    """SVC_AUTHSERVER_DATABASE_URL, SVC_READER_DATABASE_URL, SVC_INGESTER_DATABASE_URL,
    SVC_IMPORTER_DATABASE_URL, SVC_WORKER_DATABASE_URL: the login of each role, for a process without
    DATABASE_URL; by default DATABASE_URL with the password that ``svc migrate`` has made for the role."""
    reader_replica_url: str | None = field(default=None, repr=False)
    """SVC_READER_REPLICA_URL: a streaming replica of the database, on which the resource server may run long
    reads, as postgresql://host:port; by default with user, password and database of the reader's login."""
    cookie_key: str | None = field(default=None, repr=False)
    """SVC_COOKIE_KEY: signs cookies, forms and refresh tokens, and keys the hashes by which attempts are
    counted; the same on every authorization server of a deployment."""
    dashboard_key: str | None = field(default=None, repr=False)
    """SVC_DASHBOARD_KEY: seals the cookies of the dashboard; the same on every resource server of a
    deployment."""
    sealing_public_key: str | None = None
    """SVC_SEALING_PUBLIC_KEY: the key to which secrets of connections are sealed (``svc sealing new``).
    Without it, nobody can connect what needs one. By default the public half of the newest private key."""
    sealing_private_keys: tuple[str, ...] = field(default=(), repr=False)
    """SVC_SEALING_PRIVATE_KEYS: with commas between them, the keys that open these secrets, the newest first.
    They are the worker's alone: a server that has them does not start."""
    fetch_networks: tuple[str, ...] = ()
    """SVC_FETCH_NETWORKS: with commas between them, networks of the operator's own from which calendars and
    the like may be fetched, although they are not public; by default none."""
    full_urls: bool = False
    """SVC_FULL_URLS: whether user name, password, query and fragment of visited addresses are kept."""
    loopback_port_may_vary: bool | None = None
    """SVC_LOOPBACK_PORT_MAY_VARY: whether the port of an http loopback redirect may differ from the
    registered one (RFC 8252, section 7.3); by default only for clients that are described by a document."""
    device_authorization: bool = False
    """SVC_DEVICE_AUTHORIZATION: whether applications on devices without a browser may show a code that their
    person enters in another browser (RFC 8628)."""
    client_metadata_documents: bool = False
    """SVC_CLIENT_METADATA_DOCUMENTS: whether addresses of client id metadata documents are client ids; by
    default if SVC_AUTH_URL is https."""
    prepare: bool = True
    """SVC_DATABASE_PREPARE: whether statements are prepared. A connection to a pooler prepares none in any
    case; each notices that when it is made."""
    quick_connections: int = 2
    """SVC_QUICK_CONNECTIONS: most connections to the database that one process of the resource server has for
    short index searches. Many requests share one. Probes have two more."""
    patient_connections: int = 5
    """SVC_PATIENT_CONNECTIONS: the same for reads that may take long, each of which uses one alone."""
    ingest_connections: int = 3
    """SVC_INGEST_CONNECTIONS: the same for batches of events."""
    export_connections: int = 3
    """SVC_EXPORT_CONNECTIONS: the same for exports, and so the most exports at once in a process."""
    job_connections: int = 3
    """SVC_JOB_CONNECTIONS: the same for rollups, summaries, visits and the last use of tokens. With fewer, a
    job waits for the others."""
    auth_connections: int = 6
    """SVC_AUTH_CONNECTIONS: most connections that one process of the authorization server has for short
    statements. Many requests share one."""
    auth_slow_connections: int = 2
    """SVC_AUTH_SLOW_CONNECTIONS: the same for slow statements. Jobs have one more, and probes two."""
    trusted_proxies: tuple[str, ...] = ()
    """SVC_TRUSTED_PROXIES: addresses and networks, with commas between them, of the reverse proxies whose
    X-Forwarded-For header gives a client's address; by default none is trusted."""
    provider: Provider | None = None
    """SVC_PROVIDER_...: the provider at which people may sign in; None without one."""
    operator_contact: str | None = None
    """SVC_OPERATOR_CONTACT: the contact for people who have forgotten their password, in words, as the
    sign-in page shows it: a name, an e-mail address, a room."""
    receivers: tuple[str, ...] = ()
    """SVC_RECEIVERS: with commas between them, the kinds of connections with which applications may send
    records in their own formats (shared/connections.py), such as wakatime,owntracks; by default none."""
    receiver_connections: int = 3
    """SVC_RECEIVER_CONNECTIONS: the same for what applications send, if SVC_RECEIVERS is set, one of them for
    keys; beats of editors have as many more, without that one."""
    mcp_origins: tuple[str, ...] = ()
    """SVC_MCP_ORIGINS: with commas between them, origins whose pages may use the MCP endpoint in a browser,
    besides SVC_BASE_URL; programs other than pages need no entry."""
    registrations_per_hour: int = 100
    """SVC_REGISTRATIONS_PER_HOUR: the most registrations of applications from one address; a refused one
    counts a tenth. 0 for no limit."""
    mcp_calls_per_minute: int = 600
    """SVC_MCP_CALLS_PER_MINUTE: the most requests of one person to the MCP endpoint in each process of the
    resource server; 0 for no limit."""
    upload_dir: Path | None = None
    """SVC_UPLOAD_DIR: the directory of uploaded files until they are imported, which resource server and
    worker share. By default the directory uploads in SVC_DATA_DIR, but none if SVC_DEPLOYMENT is hosted; off
    for none. Without a directory nobody can upload files."""
    upload_mib: int = 20 * 1024
    """SVC_UPLOAD_MIB: the most MiB of one uploaded file, and of all files of a person that are not imported
    yet."""
    upload_free_mib: int = 1024
    """SVC_UPLOAD_FREE_MIB: the MiB that uploads leave free on the disk of SVC_UPLOAD_DIR."""
    storage_dir: Path | None = None
    """SVC_STORAGE_DIR: a directory on the disk of the database, whose free space is watched. By default that
    of the embedded PostgreSQL, and none with DATABASE_URL or logins of roles, because that database may be
    on another machine; off for none."""
    storage_reserve_mib: int = 512
    """SVC_STORAGE_RESERVE_MIB: the free MiB on that disk below which no events, imports and summaries are
    written (503 storage_full), so that the database never has to stop."""
    keep_raw_years: int | None = None
    """SVC_KEEP_RAW_YEARS: for how many years single sessions of applications and of coding are kept, counted
    back from today where each person lives. The worker removes older ones, a month at a time. Sums of their
    days stay, titles and files do not; 'svc retention' shows beforehand what would go. By default all are
    kept for ever. Set it once all processes run a version that knows it."""
    backup_dir: Path | None = None
    """SVC_BACKUP_DIR: where ``svc backup`` writes when its command line names no directory, and where
    the newest backup is looked for; by default none."""
    refreshes_per_hour: int = 240
    """SVC_REFRESHES_PER_HOUR: the most refreshes of one grant within an hour; 0 for no limit."""
    refresh_retry_s: int = 0
    """SVC_REFRESH_RETRY_SECONDS: for how many seconds an application that has lost the answer to a refresh
    can repeat it, unless one of the new tokens was used; at most 30, and 0 for not at all."""
    drain_s: int = 0
    """SVC_DRAIN_SECONDS: for how many seconds a server process goes on answering after SIGTERM, while /readyz
    is 503 and each answer closes its connection; at most 300. Requests that still run then have as long
    again, and at least 5 s. ``svc up`` does not use it, since it has one process of each server."""
    deployment: Deployment = "self_hosted"
    """SVC_DEPLOYMENT: what the capabilities answer: self_hosted, or hosted if the operator runs the service
    for others."""
    jobs: bool = True
    """SVC_JOBS: whether a server runs jobs of its own, such as rollups, summaries and the janitor. With off,
    the last use of tokens is written only when the server stops, and ``svc up`` starts no worker."""
    worker: bool = False
    """SVC_WORKER: on if a worker (``svc resource work``) runs beside the resource servers, which then leave
    rollups and summaries to it; ``svc up`` sets it."""
    log_format: LogFormat = "text"
    """SVC_LOG_FORMAT: text, or json for one JSON object a line."""
    commit: str = "unknown"
    """SVC_BUILD_COMMIT: the commit of the running build, for /healthz."""
    built_at: str | None = None
    """SVC_BUILD_TIME: the time of the build, for /healthz."""
    processes: int = 1
    """SVC_PROCESSES: how many processes the server has; ``--workers`` of its command sets it."""
    lifeline: int | None = None
    """SVC_LIFELINE: a pipe's descriptor from the starter of the process; its end ends the process."""
    notify_socket: str | None = None
    """NOTIFY_SOCKET: the socket on which a service manager such as systemd waits for this process to be ready
    (shared/readiness.py); systemd sets it."""

    @property
    def is_https(self) -> bool:
        """Whether people reach the authorization server over https."""
        return self.auth_url.startswith("https://")

    @property
    def connections_of_jobs(self) -> int:
        """The most connections for the jobs of one process of the resource server."""
        # Without rollups and summaries, the jobs that remain are short.
        return 1 if self.worker else self.job_connections

    @property
    def connections(self) -> dict[str, int]:
        """The most connections of one process, by the role that it logs in as."""
        return {
            "authserver": self.auth_connections + self.auth_slow_connections + 1 + PROBES,
            "reader": self.quick_connections
            + self.patient_connections
            + self.export_connections
            + PROBES,
            "ingester": self.ingest_connections,
            "importer": self._connections_of_receivers if self.receivers else 0,
            # The first uses of tokens are noted on one more connection while refreshes can be repeated.
            "worker": self.connections_of_jobs + (1 if self.refresh_retry_s else 0),
        }

    @property
    def connections_of_replica(self) -> int:
        """The most connections of one process of the resource server to the replica; one is the watch's."""
        return self.patient_connections + 1

    @property
    def _connections_of_receivers(self) -> int:
        # At least one writes, and one looks keys up.
        writing = max(self.receiver_connections - 1, 1)
        return 1 + writing * (2 if "wakatime" in self.receivers else 1)

    @property
    def connections_of_worker(self) -> dict[str, int]:
        """The most connections of one worker, by the role that it logs in as: its turns', and its own."""
        writing = 1 + (0 if self.upload_dir is None else IMPORTS)
        return {"worker": self.job_connections + 1 + writing, "importer": writing}

    @property
    def auth_listeners(self) -> Listen:
        """The addresses on which the authorization server listens."""
        return _listeners("SVC_AUTH", self.auth_listen, self.auth_url)

    @property
    def base_listeners(self) -> Listen:
        """The addresses on which the resource server listens."""
        return _listeners("SVC_BASE", self.base_listen, self.base_url)

    @property
    def auth_metrics(self) -> Listen:
        """The addresses of the metrics of the authorization server's first process, if there are any."""
        return Listen("SVC_AUTH_METRICS_LISTEN", self.auth_metrics_listen)

    @property
    def base_metrics(self) -> Listen:
        """Those of the resource server's first process."""
        return Listen("SVC_BASE_METRICS_LISTEN", self.base_metrics_listen)

    @property
    def worker_metrics(self) -> Listen:
        """Those of the worker."""
        return Listen("SVC_WORKER_METRICS_LISTEN", self.worker_metrics_listen)


def _listeners(prefix: str, addresses: tuple[Address, ...], url: str) -> Listen:
    if addresses:
        return Listen(f"{prefix}_LISTEN", addresses)
    return Listen(f"{prefix}_URL", (Address("localhost", listening.port_of(url)),))


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings in ``environment``. Raises SettingsError, which names all faulty ones."""
    remaining, faults = dict(environment), list[str]()
    while True:
        try:
            chosen = _read(remaining)
        except Fault as fault:
            faults.append(str(fault))
            # Without its variables the others can be read, so that one start names every fault.
            others = {name: value for name, value in remaining.items() if name not in fault.names}
            if others == remaining:
                break
            remaining = others
        else:
            break
    if faults:
        raise SettingsError("; ".join(faults))
    return chosen


def _read(environment: Mapping[str, str]) -> Settings:
    """Return the settings in ``environment``. Raises Fault for the first that is faulty."""
    data_dir = _data_dir(environment)
    deployment = _deployment(environment, "SVC_DEPLOYMENT")
    role_urls = {
        role: url
        for role in ROLES
        if (url := _database_url(environment, f"SVC_{role.upper()}_DATABASE_URL")) is not None
    }
    auth_url = _public_url(environment, "SVC_AUTH_URL", Settings.auth_url)
    base_url = _public_url(environment, "SVC_BASE_URL", Settings.base_url)
    if auth_url == base_url:
        raise Fault(
            f"SVC_AUTH_URL and SVC_BASE_URL are both {auth_url}: {_ORIGIN_OF_ITS_OWN}",
            "SVC_AUTH_URL",
            "SVC_BASE_URL",
        )
    public_key, private_keys = _sealing_keys(environment)
    database_url = _database_url(environment, "DATABASE_URL")
    replica_url = _replica_url(environment, database_url, role_urls)
    return Settings(
        auth_url=auth_url,
        base_url=base_url,
        auth_internal_url=_internal_url(environment, "SVC_AUTH_INTERNAL_URL"),
        auth_listen=_addresses(environment, "SVC_AUTH_LISTEN"),
        base_listen=_addresses(environment, "SVC_BASE_LISTEN"),
        auth_metrics_listen=_addresses(environment, "SVC_AUTH_METRICS_LISTEN"),
        base_metrics_listen=_addresses(environment, "SVC_BASE_METRICS_LISTEN"),
        worker_metrics_listen=_addresses(environment, "SVC_WORKER_METRICS_LISTEN"),
        data_dir=data_dir,
        state_dir=_own_dir(environment, "XDG_STATE_HOME", Settings.state_dir),
        config_dir=_own_dir(environment, "XDG_CONFIG_HOME", Settings.config_dir),
        database_url=database_url,
        role_urls=role_urls,
        reader_replica_url=replica_url,
        cookie_key=_key(environment, "SVC_COOKIE_KEY"),
        dashboard_key=_key(environment, "SVC_DASHBOARD_KEY"),
        sealing_public_key=public_key,
        sealing_private_keys=private_keys,
        fetch_networks=_networks(environment, "SVC_FETCH_NETWORKS", _EVERY_NETWORK_IS_ALLOWED),
        full_urls=_switch(environment, "SVC_FULL_URLS", default=False),
        loopback_port_may_vary=_switch_if_set(environment, "SVC_LOOPBACK_PORT_MAY_VARY"),
        client_metadata_documents=_switch(
            environment,
            "SVC_CLIENT_METADATA_DOCUMENTS",
            default=auth_url.startswith("https://"),
        ),
        device_authorization=_switch(environment, "SVC_DEVICE_AUTHORIZATION", default=False),
        prepare=_switch(environment, "SVC_DATABASE_PREPARE", default=True),
        **{name: _size(environment, name) for name in _SIZES},
        trusted_proxies=_networks(environment, "SVC_TRUSTED_PROXIES", _EVERYBODY_IS_TRUSTED),
        provider=_provider(environment),
        operator_contact=_line(environment, "SVC_OPERATOR_CONTACT"),
        receivers=_receivers(environment, "SVC_RECEIVERS"),
        mcp_origins=_origins(environment, "SVC_MCP_ORIGINS"),
        upload_dir=_upload_dir(environment, data_dir, deployment),
        upload_mib=_count(environment, "SVC_UPLOAD_MIB", Settings.upload_mib, least=1),
        upload_free_mib=_count(environment, "SVC_UPLOAD_FREE_MIB", Settings.upload_free_mib),
        storage_dir=_storage_dir(
            environment, data_dir, is_embedded=not (database_url or role_urls)
        ),
        storage_reserve_mib=_count(
            environment, "SVC_STORAGE_RESERVE_MIB", Settings.storage_reserve_mib
        ),
        keep_raw_years=_years(environment, "SVC_KEEP_RAW_YEARS"),
        backup_dir=_directory(environment, "SVC_BACKUP_DIR"),
        refreshes_per_hour=_count(
            environment, "SVC_REFRESHES_PER_HOUR", Settings.refreshes_per_hour
        ),
        refresh_retry_s=_count(
            environment,
            "SVC_REFRESH_RETRY_SECONDS",
            Settings.refresh_retry_s,
            most=_LONGEST_REFRESH_RETRY_S,
        ),
        registrations_per_hour=_count(
            environment, "SVC_REGISTRATIONS_PER_HOUR", Settings.registrations_per_hour
        ),
        mcp_calls_per_minute=_count(
            environment, "SVC_MCP_CALLS_PER_MINUTE", Settings.mcp_calls_per_minute
        ),
        drain_s=_count(environment, "SVC_DRAIN_SECONDS", Settings.drain_s, most=_LONGEST_DRAIN_S),
        deployment=deployment,
        jobs=_switch(environment, "SVC_JOBS", default=True),
        worker=_switch(environment, "SVC_WORKER", default=False),
        log_format=_log_format(environment, "SVC_LOG_FORMAT"),
        commit=_line(environment, "SVC_BUILD_COMMIT") or Settings.commit,
        built_at=_line(environment, "SVC_BUILD_TIME"),
        processes=_count(environment, "SVC_PROCESSES", Settings.processes, least=1),
        lifeline=_descriptor(environment, "SVC_LIFELINE"),
        notify_socket=_socket(environment, "NOTIFY_SOCKET"),
    )


def environment(chosen: Settings, role_urls: Mapping[str, str]) -> dict[str, str]:
    """Return the variables from which ``read`` gives ``chosen`` again, with only ``role_urls`` as logins."""
    variables = {
        "SVC_AUTH_URL": chosen.auth_url,
        "SVC_BASE_URL": chosen.base_url,
        "SVC_AUTH_LISTEN": ",".join(map(str, chosen.auth_listen)),
        "SVC_BASE_LISTEN": ",".join(map(str, chosen.base_listen)),
        "SVC_AUTH_METRICS_LISTEN": ",".join(map(str, chosen.auth_metrics_listen)),
        "SVC_BASE_METRICS_LISTEN": ",".join(map(str, chosen.base_metrics_listen)),
        "SVC_WORKER_METRICS_LISTEN": ",".join(map(str, chosen.worker_metrics_listen)),
        "SVC_PROCESSES": str(chosen.processes),
        "SVC_DATA_DIR": str(chosen.data_dir),
        # Empty for a process that does not read: it inherits both, and has no login to which they belong.
        "SVC_READER_REPLICA_URL": (chosen.reader_replica_url or "")
        if "reader" in role_urls
        else "",
        "SVC_READER_REPLICA_URL_FILE": "",
        "SVC_FETCH_NETWORKS": ",".join(chosen.fetch_networks),
        "SVC_FULL_URLS": "on" if chosen.full_urls else "off",
        "SVC_CLIENT_METADATA_DOCUMENTS": "on" if chosen.client_metadata_documents else "off",
        "SVC_DEVICE_AUTHORIZATION": "on" if chosen.device_authorization else "off",
        "SVC_DATABASE_PREPARE": "on" if chosen.prepare else "off",
        **{_variable(name): str(getattr(chosen, name)) for name in _SIZES},
        "SVC_TRUSTED_PROXIES": ",".join(chosen.trusted_proxies),
        "SVC_RECEIVERS": ",".join(chosen.receivers),
        "SVC_MCP_ORIGINS": ",".join(chosen.mcp_origins),
        "SVC_UPLOAD_DIR": "off" if chosen.upload_dir is None else str(chosen.upload_dir),
        "SVC_UPLOAD_MIB": str(chosen.upload_mib),
        "SVC_UPLOAD_FREE_MIB": str(chosen.upload_free_mib),
        "SVC_STORAGE_DIR": "off" if chosen.storage_dir is None else str(chosen.storage_dir),
        "SVC_STORAGE_RESERVE_MIB": str(chosen.storage_reserve_mib),
        "SVC_KEEP_RAW_YEARS": "" if chosen.keep_raw_years is None else str(chosen.keep_raw_years),
        "SVC_REGISTRATIONS_PER_HOUR": str(chosen.registrations_per_hour),
        "SVC_MCP_CALLS_PER_MINUTE": str(chosen.mcp_calls_per_minute),
        "SVC_REFRESHES_PER_HOUR": str(chosen.refreshes_per_hour),
        "SVC_REFRESH_RETRY_SECONDS": str(chosen.refresh_retry_s),
        "SVC_DRAIN_SECONDS": str(chosen.drain_s),
        "SVC_DEPLOYMENT": chosen.deployment,
        "SVC_JOBS": "on" if chosen.jobs else "off",
        "SVC_WORKER": "on" if chosen.worker else "off",
        "SVC_LOG_FORMAT": chosen.log_format,
        "SVC_BUILD_COMMIT": chosen.commit,
        "SVC_BUILD_TIME": chosen.built_at or "",
        # Empty if a process that this one starts is to send nothing, because it would inherit the variable.
        "NOTIFY_SOCKET": chosen.notify_socket or "",
    }
    if chosen.auth_internal_url is not None:
        variables["SVC_AUTH_INTERNAL_URL"] = chosen.auth_internal_url
    if chosen.loopback_port_may_vary is not None:
        may_vary = "on" if chosen.loopback_port_may_vary else "off"
        variables["SVC_LOOPBACK_PORT_MAY_VARY"] = may_vary
    if chosen.cookie_key is not None:
        variables["SVC_COOKIE_KEY"] = chosen.cookie_key
    if chosen.dashboard_key is not None:
        variables["SVC_DASHBOARD_KEY"] = chosen.dashboard_key
    if chosen.sealing_public_key is not None:
        variables["SVC_SEALING_PUBLIC_KEY"] = chosen.sealing_public_key
    if chosen.sealing_private_keys:
        variables["SVC_SEALING_PRIVATE_KEYS"] = ",".join(chosen.sealing_private_keys)
    if chosen.operator_contact is not None:
        variables["SVC_OPERATOR_CONTACT"] = chosen.operator_contact
    if chosen.backup_dir is not None:
        variables["SVC_BACKUP_DIR"] = str(chosen.backup_dir)
    if chosen.lifeline is not None:
        variables["SVC_LIFELINE"] = str(chosen.lifeline)
    if chosen.provider is not None:
        variables |= {
            "SVC_PROVIDER_ISSUER": chosen.provider.issuer,
            "SVC_PROVIDER_CLIENT_ID": chosen.provider.client_id,
            "SVC_PROVIDER_CLIENT_SECRET": chosen.provider.client_secret,
            "SVC_PROVIDER_NAME": chosen.provider.name,
            "SVC_PROVIDER_DOMAINS": ",".join(chosen.provider.domains),
            "SVC_PROVIDER_LOGOUT_ENDS_GRANTS": "on"
            if chosen.provider.logout_ends_grants
            else "off",
        }
    return variables | {f"SVC_{role.upper()}_DATABASE_URL": url for role, url in role_urls.items()}


def _data_dir(environment: Mapping[str, str]) -> Path:
    given = _directory(environment, "SVC_DATA_DIR")
    if given is not None:
        return given
    return Path("/var/lib/svc") if os.geteuid() == 0 else Path(".data").absolute()


def _upload_dir(
    environment: Mapping[str, str], data_dir: Path, deployment: Deployment
) -> Path | None:
    match environment.get("SVC_UPLOAD_DIR"):
        case "off":
            return None
        case None | "":
            return None if deployment == "hosted" else data_dir / "uploads"
        case _:
            return _directory(environment, "SVC_UPLOAD_DIR")


def _directory(environment: Mapping[str, str], name: str) -> Path | None:
    """Return a directory, which need not exist yet, or None if the variable is not set."""
    given = environment.get(name)
    if not given:
        return None
    path = Path(given).absolute()
    # os.path, unlike Path, gives an answer where this login may not look.
    if os.path.exists(path) and not os.path.isdir(path):
        raise Fault(f"{name}: {given!r} is no directory", name)
    return path


def _storage_dir(
    environment: Mapping[str, str], data_dir: Path, *, is_embedded: bool
) -> Path | None:
    match environment.get("SVC_STORAGE_DIR"):
        case "off":
            return None
        case None | "":
            return data_dir / "postgres" if is_embedded else None
        case _:
            return _directory(environment, "SVC_STORAGE_DIR")


def _own_dir(environment: Mapping[str, str], name: str, default: Path) -> Path:
    """Return the directory of this service in one of the XDG Base Directory Specification."""
    given = Path(environment.get(name, ""))
    # The specification says that a relative path must be ignored.
    return given / "svc" if given.is_absolute() else default


def _secret(environment: Mapping[str, str], name: str) -> str | None:
    path = environment.get(f"{name}_FILE")
    if not path:
        return environment.get(name) or None
    # The messages do not repeat the path: the variable may have the secret itself by mistake.
    try:
        content = Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Fault(f"{name}_FILE: cannot be read: {error.strerror}", f"{name}_FILE") from None
    except UnicodeDecodeError:
        raise Fault(f"{name}_FILE: the file is not text in UTF-8", f"{name}_FILE") from None
    if not content:
        raise Fault(f"{name}_FILE: the file is empty", f"{name}_FILE")
    return content


_SHORTEST_KEY: Final = 32


def _key(environment: Mapping[str, str], name: str) -> str | None:
    """Return the random text of a key, or None without one. Raises Fault, which does not repeat it."""
    key = _secret(environment, name)
    if key is not None and len(key) < _SHORTEST_KEY:
        raise Fault(
            f"{name}: fewer than {_SHORTEST_KEY} characters; 'openssl rand -base64 32' prints a key",
            name,
            f"{name}_FILE",
        )
    return key


def _database_url(environment: Mapping[str, str], name: str) -> str | None:
    """Return a connection string, or None without one. Raises Fault, which repeats nothing of it."""
    url = _secret(environment, name)
    if url is None:
        return None
    import psycopg  # noqa: PLC0415 -- `svc today` and the like load no database driver

    try:
        ports = psycopg.conninfo.conninfo_to_dict(url).get("port", "")
        # With a slash in the password, libpq takes the text before it for the port and repeats it in an
        # error.
        is_url = all(not port or port.isdecimal() for port in str(ports).split(","))
    except (psycopg.ProgrammingError, UnicodeError):
        is_url = False
    if not is_url:
        raise Fault(f"{name} is not a connection string of PostgreSQL", name, f"{name}_FILE")
    return url


_REPLICA: Final = "SVC_READER_REPLICA_URL"


def _replica_url(
    environment: Mapping[str, str], database_url: str | None, role_urls: Mapping[str, str]
) -> str | None:
    """Return the address of the replica. Raises Fault where it cannot be one of the reader's database."""
    url = _database_url(environment, _REPLICA)
    if url is None:
        return None
    names = (_REPLICA, f"{_REPLICA}_FILE")
    name = "SVC_READER_DATABASE_URL" if "reader" in role_urls else "DATABASE_URL"
    primary = role_urls.get("reader", database_url)
    if primary is None and role_urls:
        raise Fault(
            f"{_REPLICA} is set, and the reader has no login at the primary, where tokens are checked: set"
            " SVC_READER_DATABASE_URL or DATABASE_URL too",
            *names,
        )
    server = _server(url)
    if not any(server):
        raise Fault(f"{_REPLICA} names no server: it must look like postgresql://host:port", *names)
    if primary is not None and server == _server(primary):
        raise Fault(f"{_REPLICA} and {name} name the same server", *names)
    return url


def _server(url: str) -> tuple[str, str]:
    """Return where the server of a connection string listens."""
    from psycopg import conninfo  # noqa: PLC0415 -- `svc today` and the like load no database driver

    given = conninfo.conninfo_to_dict(url)
    host = str(given.get("hostaddr") or given.get("host") or "").lower()
    return host, str(given.get("port") or ("5432" if host else ""))


_ORIGIN_OF_ITS_OWN: Final = (
    "each server needs a host name or a port of its own, because browsers keep cookies, passkeys and the "
    "permissions of pages by origin, and both servers answer at /.well-known"
)


def _public_url(environment: Mapping[str, str], name: str, default: str) -> str:
    """Return the origin of one of the two servers, spelled as browsers and clients spell it."""
    given = environment.get(name) or default
    if re.fullmatch(r"https?://[^/?#@]+/+[^/?#@]+", given):
        raise Fault(f"{name}: {given!r} must have no path: {_ORIGIN_OF_ITS_OWN}", name)
    origin = _without_usual_port(_origin(environment, name, default))
    if origin.startswith("http:") and not listening.is_loopback(urlsplit(origin).hostname or ""):
        raise Fault(
            f"{name}: {origin} must be https: http is for loopback addresses alone, such as {default};"
            " a reverse proxy adds https (deploy/proxy)",
            name,
        )
    return origin


def _internal_url(environment: Mapping[str, str], name: str) -> str | None:
    return _origin(environment, name, "") if environment.get(name) else None


def _origin(environment: Mapping[str, str], name: str, default: str) -> str:
    """Return an http(s) address without path, query or trailing slash."""
    given = environment.get(name) or default
    shape = "must look like https://host or http://host:port"
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError as error:
        raise Fault(f"{name}: {_printable(given)} is not an address: {error}", name) from error
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or port == 0
        or parts.path.strip("/")
        or parts.query
        or parts.fragment
        or parts.username is not None
        or not re.fullmatch(r"[!-~]+", given)
    ):
        raise Fault(f"{name}: {_printable(given)} {shape}", name)
    return f"{parts.scheme}://{parts.netloc.lower()}"


def _printable(url: str) -> str:
    """Return an address as a message repeats it: without a password, and without what a query may hold."""
    return repr(re.sub(r"[?#].*", "", re.sub(r"[^/]*@", "...@", url), flags=re.DOTALL))


def _receivers(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the kinds of a list with commas."""
    given = [each.strip() for each in environment.get(name, "").split(",") if each.strip()]
    for each in given:
        if each not in connections.RECEIVERS:
            known = ", ".join(connections.RECEIVERS)
            raise Fault(f"{name}: {each!r} is none of {known}", name)
    return tuple(dict.fromkeys(given))


def _origins(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the origins of a list with commas, as browsers write them."""
    given = [each.strip() for each in environment.get(name, "").split(",") if each.strip()]
    for each in given:
        # No browser sends these, so such an entry would never match, without any warning.
        if not each.isascii() or "*" in each:
            raise Fault(f"{name}: {_printable(each)} must name one host, in ASCII (xn--...)", name)
    return tuple(_without_usual_port(_origin({name: each}, name, "")) for each in given)


def _without_usual_port(origin: str) -> str:
    return origin.removesuffix(":443" if origin.startswith("https:") else ":80").removesuffix(":")


def _addresses(environment: Mapping[str, str], name: str) -> tuple[Address, ...]:
    try:
        return listening.parse(environment.get(name, ""))
    except ValueError as error:
        raise Fault(f"{name}: {error}", name) from error


_MOST: Final = 999_999_999
_LONGEST_REFRESH_RETRY_S: Final = 30
_LONGEST_DRAIN_S: Final = 300


def _count(
    environment: Mapping[str, str], name: str, default: int, *, least: int = 0, most: int = _MOST
) -> int:
    """Return a whole number between ``least`` and ``most``."""
    given = environment.get(name, "").strip()
    if not given:
        return default
    is_number = given.isascii() and given.isdecimal() and len(given) <= len(str(_MOST))
    if not is_number or not least <= int(given) <= most:
        raise Fault(f"{name}: {given!r} is not a whole number between {least} and {most}", name)
    return int(given)


def _years(environment: Mapping[str, str], name: str) -> int | None:
    """Return a number of years; None without one."""
    return _count(environment, name, 0, least=1, most=_MOST_YEARS) or None


_MOST_YEARS: Final = 100
_SIZES: Final = tuple(
    field.name for field in fields(Settings) if field.name.endswith("_connections")
)
_LARGEST_SIZE: Final = 1000


def _variable(name: str) -> str:
    return f"SVC_{name.upper()}"


def _size(environment: Mapping[str, str], name: str) -> int:
    """Return the number of connections that the field ``name`` allows."""
    default = getattr(Settings, name)
    return _count(environment, _variable(name), default, least=1, most=_LARGEST_SIZE)


def _deployment(environment: Mapping[str, str], name: str) -> Deployment:
    match environment.get(name) or Settings.deployment:
        case "self_hosted":
            return "self_hosted"
        case "hosted":
            return "hosted"
        case given:
            raise Fault(f"{name}: {given!r} is neither self_hosted nor hosted", name)


def _log_format(environment: Mapping[str, str], name: str) -> LogFormat:
    match environment.get(name) or Settings.log_format:
        case "text":
            return "text"
        case "json":
            return "json"
        case given:
            raise Fault(f"{name}: {given!r} is neither text nor json", name)


def _switch(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    given = environment.get(name, "").lower()
    if given in ("", "1", "true", "yes", "on", "0", "false", "no", "off"):
        return default if not given else given in ("1", "true", "yes", "on")
    raise Fault(f"{name}: {given!r} is neither on nor off", name)


def _switch_if_set(environment: Mapping[str, str], name: str) -> bool | None:
    return _switch(environment, name, default=False) if environment.get(name) else None


_EVERYBODY_IS_TRUSTED: Final = "everybody cannot be trusted to say where they come from"
_EVERY_NETWORK_IS_ALLOWED: Final = "this would allow the addresses of every machine inside"


def _networks(environment: Mapping[str, str], name: str, objection: str) -> tuple[str, ...]:
    """Return addresses and networks in their one spelling; ``objection`` says why all are too many."""
    given = environment.get(name, "").split(",")
    try:
        # The web server would take text that is no network for a name, which never matches a client.
        networks = tuple(ip_network(each.strip()) for each in given if each.strip())
    except ValueError as error:
        raise Fault(f"{name}: {error}", name) from error
    if any(network.prefixlen == 0 for network in networks):
        raise Fault(f"{name}: {objection}", name)
    return tuple(map(str, networks))


def _sealing_keys(environment: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the public key and the private keys. Raises Fault, which repeats none of them."""
    public_name, private_name = "SVC_SEALING_PUBLIC_KEY", "SVC_SEALING_PRIVATE_KEYS"
    public = environment.get(public_name, "").strip() or None
    given = (_secret(environment, private_name) or "").split(",")
    private = tuple(each.strip() for each in given if each.strip())
    if public is None and not private:
        return None, ()
    from shared import sealing  # noqa: PLC0415 -- most commands have no key, and need no cryptography

    name = public_name
    try:
        if public is not None:
            sealing.key_id_of(public)
        name = private_name
        halves = [sealing.public_key_of(each) for each in private]
    except sealing.NotAKey as error:
        raise Fault(f"{name}: {error}", name, f"{name}_FILE") from None
    if halves and public is not None and public not in halves:
        raise Fault(
            f"{public_name}: no key of {private_name} opens what is sealed to this one", public_name
        )
    return public or halves[0], private


_LONGEST_LINE: Final = 200


def _line(environment: Mapping[str, str], name: str) -> str | None:
    given = environment.get(name, "").strip()
    if not given.isprintable() or len(given) > _LONGEST_LINE:
        raise Fault(f"{name}: must be at most {_LONGEST_LINE} characters that can be read", name)
    return given or None


def _socket(environment: Mapping[str, str], name: str) -> str | None:
    """Return the name of a Unix socket as systemd writes it; an abstract one begins with @ (sd_notify)."""
    given = environment.get(name)
    if given and not given.startswith(("/", "@")):
        raise Fault(f"{name}: {given!r} is neither a path nor an abstract name", name)
    return given or None


_DOMAIN: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9-]{2,63}")
_LONGEST_PROVIDER_NAME: Final = 40


_PROVIDER: Final = "SVC_PROVIDER_"


def _provider(environment: Mapping[str, str]) -> Provider | None:
    """Return the provider that is set, or None. Raises Fault if only a part of it is set."""
    given = {
        "ISSUER": environment.get(f"{_PROVIDER}ISSUER"),
        "CLIENT_ID": environment.get(f"{_PROVIDER}CLIENT_ID", "").strip(),
        "CLIENT_SECRET": _secret(environment, f"{_PROVIDER}CLIENT_SECRET"),
        "NAME": environment.get(f"{_PROVIDER}NAME", "").strip(),
    }
    domains = _domains(environment, f"{_PROVIDER}DOMAINS")
    ends_grants = _switch(environment, f"{_PROVIDER}LOGOUT_ENDS_GRANTS", default=False)
    if not any(given.values()) and not domains and not ends_grants:
        return None
    # One part less would be another fault: that the provider is incomplete.
    every = [name for name in environment if name.startswith(_PROVIDER)]
    missing = [f"{_PROVIDER}{name}" for name, value in given.items() if not value]
    if missing:
        raise Fault(f"{', '.join(missing)}: needed with the others of {_PROVIDER}...", *every)
    for name, most in (("CLIENT_ID", _LONGEST_LINE), ("NAME", _LONGEST_PROVIDER_NAME)):
        text = given[name] or ""
        if not text.isprintable() or len(text) > most:
            said = f"must be at most {most} characters that can be read"
            raise Fault(f"{_PROVIDER}{name}: {said}", *every)
    issuer = given["ISSUER"] or ""
    if not _is_issuer(issuer):
        raise Fault(
            f"{_PROVIDER}ISSUER: {_printable(issuer)} must look like https://host or https://host/path; "
            "http is for loopback addresses alone",
            *every,
        )
    return Provider(
        issuer=issuer,
        client_id=given["CLIENT_ID"] or "",
        client_secret=given["CLIENT_SECRET"] or "",
        name=given["NAME"] or "",
        domains=domains,
        logout_ends_grants=ends_grants,
    )


def _is_issuer(given: str) -> bool:
    """Whether ``given`` is an issuer. It is kept unchanged, because clients compare every character."""
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError:
        return False
    is_loopback = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return (
        (parts.scheme == "https" or (parts.scheme == "http" and is_loopback))
        and bool(parts.hostname)
        and port != 0
        and "?" not in given
        and "#" not in given
        and parts.username is None
        and re.fullmatch(r"[!-~]+", given) is not None
    )


def _domains(environment: Mapping[str, str], name: str) -> tuple[str, ...]:
    given = [each.strip().lower() for each in environment.get(name, "").split(",")]
    domains = tuple(dict.fromkeys(each for each in given if each))
    for domain in domains:
        if _DOMAIN.fullmatch(domain) is None:
            raise Fault(f"{name}: {domain!r} is not a domain such as example.org", name)
    return domains


def _descriptor(environment: Mapping[str, str], name: str) -> int | None:
    given = environment.get(name)
    if given and not (given.isascii() and given.isdecimal() and len(given) <= len(str(_MOST))):
        raise Fault(f"{name}: {given!r} is no file descriptor", name)
    return int(given) if given else None


@dataclass(frozen=True, repr=False)
class Secrets:
    """The secrets that ``svc migrate`` generates unless the operator sets them: role passwords and keys."""

    passwords: Mapping[str, str]
    cookie_key: str
    dashboard_key: str | None = None
    """None until ``svc migrate`` adds it to the secrets of an earlier version."""

    @property
    def is_complete(self) -> bool:
        """Whether they are all that this version needs."""
        return self.passwords.keys() >= set(ROLES) and self.dashboard_key is not None


def read_secrets(data_dir: Path) -> Secrets:
    """Return the secrets in the data directory. Raises SettingsError without any."""
    path = data_dir / "secrets.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return Secrets(dict(kept["passwords"]), kept["cookie_key"], kept.get("dashboard_key"))
    except FileNotFoundError as error:
        raise SettingsError(
            f"{path} is missing: run 'svc migrate' first, or set SVC_DATA_DIR to the directory in which"
            " it has run"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(f"{path} cannot be used: {error!r}") from error


def signing_key(chosen: Settings) -> str:
    """Return the key that signs cookies. Raises SettingsError if a deployment has none."""
    if chosen.cookie_key is not None:
        return chosen.cookie_key
    try:
        return read_secrets(chosen.data_dir).cookie_key
    except SettingsError as error:
        raise SettingsError(f"{error}, or SVC_COOKIE_KEY") from error


def sealing_key(chosen: Settings) -> str | None:
    """Return the key that seals the cookies of the dashboard, or None if a deployment has none.

    The resource server needs nothing else of the data directory, and starts without it.
    """
    if chosen.dashboard_key is not None:
        return chosen.dashboard_key
    with suppress(SettingsError):
        return read_secrets(chosen.data_dir).dashboard_key
    return None


def make_secrets(data_dir: Path) -> Secrets:
    """Return the stored secrets; generate and store, with mode 0600, those that are missing.

    Raises SettingsError if the directory cannot be written.
    """
    path = data_dir / "secrets.json"
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            private_file.create(path, json.dumps(asdict(_new_secrets())))
        if not read_secrets(data_dir).is_complete:
            _add_secrets(data_dir, path)
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from error
    return read_secrets(data_dir)


def _add_secrets(data_dir: Path, path: Path) -> None:
    """Add the passwords and the key that an earlier version did not have."""
    # Of two processes, the second reads what the first has added.
    with private_file.locked(data_dir):
        kept, new = read_secrets(data_dir), _new_secrets()
        complete = Secrets(
            {**new.passwords, **kept.passwords},
            kept.cookie_key,
            kept.dashboard_key or new.dashboard_key,
        )
        private_file.replace(path, json.dumps(asdict(complete)))


def _new_secrets() -> Secrets:
    passwords = {role: secrets.token_urlsafe(32) for role in ROLES}
    return Secrets(passwords, secrets.token_urlsafe(32), secrets.token_urlsafe(32))
