"""For each variable a value that can be used, and values that cannot, each with words of the message.

A new setting needs an entry: test_settings_examples.py compares them with the fields of shared/settings.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

KEY: Final = "0123456789abcdef0123456789abcdef"
PRIVATE_KEY: Final = "svc_sealing_private_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8-ZGEM"
PUBLIC_KEY: Final = "svc_sealing_public_j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF-QdfNb"
OTHER_PUBLIC_KEY: Final = "svc_sealing_public_nSwK5PoAUPMVdq7m4S8zH473yimRtPRqTzzhJuTKUhV7brj8"
PROVIDER: Final = {
    "SVC_PROVIDER_ISSUER": "https://login.example",
    "SVC_PROVIDER_CLIENT_ID": "svc",
    "SVC_PROVIDER_CLIENT_SECRET": "hunter2",
    "SVC_PROVIDER_NAME": "Example",
}

_NO_NUMBER: Final = "is not a whole number between"
_NO_SWITCH: Final = "is neither on nor off"
_NO_ADDRESS: Final = "must look like https://host or http://host:port"
_NO_LISTENER: Final = "must look like 127.0.0.1:8400"
_NO_URL: Final = "is not a connection string of PostgreSQL"
_NO_KEY: Final = "this is not a key of svc sealing"
_NO_FILE: Final = "cannot be read: No such file or directory"
_UNREADABLE: Final = "characters that can be read"
_NEEDED: Final = "needed with the others of SVC_PROVIDER_..."


@dataclass(frozen=True)
class Example:
    """One value of a variable that can be used and is not its default, and values that cannot be used."""

    good: str
    bad: Mapping[str, str]
    """Each with words of the message that it gets."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Other variables that the values need."""
    bad_file: Mapping[str, str] = field(default_factory=dict)
    """The same for the variable with _FILE at its end."""


def _count(good: str, *bad: str) -> Example:
    return Example(good, dict.fromkeys(("many", "-1", "1.5", "9999999999", *bad), _NO_NUMBER))


def _switch(good: str) -> Example:
    return Example(good, {"maybe": _NO_SWITCH})


def _secret(example: Example) -> Example:
    files = {"/does/not/exist": _NO_FILE, "/dev/null": "the file is empty"}
    return Example(example.good, example.bad, example.beside, files)


def _url() -> Example:
    bad = (
        "password hunter2",
        "postgresql://u:hunter2@/?foo=bar",
        "postgresql://u:hunter2/x@db/svc",
    )
    return _secret(Example("postgresql://u:p@db/svc", dict.fromkeys(bad, _NO_URL)))


def _public(good: str) -> Example:
    return Example(
        good,
        {
            "localhost:8400": _NO_ADDRESS,
            "ftp://host.example": _NO_ADDRESS,
            "https://host.example/path": "must have no path: each server needs a host name",
            "https://host.example?token=hunter2": _NO_ADDRESS,
            "https://user:hunter2@host.example": "'https://...@host.example' must look like",
            "https://host.example:99999": "is not an address: Port out of range",
            "https://a b.example": _NO_ADDRESS,
            "http://host.example": "must be https: http is for loopback addresses alone",
            "http://192.168.7.1:8400": "must be https",
        },
    )


def _listen() -> Example:
    return Example(
        "127.0.0.1:9000",
        {
            "9000": _NO_LISTENER,
            "svc.example:9000": _NO_LISTENER,
            "127.0.0.1:0": "must end with a port between 1 and 65535",
            "127.0.0.1:1,localhost:1": "localhost:1 is there twice",
        },
    )


def _networks(good: str, objection: str) -> Example:
    return Example(
        good,
        {
            "*": "does not appear to be an IPv4 or IPv6 network",
            "proxy.example": "does not appear to be an IPv4 or IPv6 network",
            "10.0.0.1/8": "has host bits set",
            "0.0.0.0/0": objection,
            "::/0": objection,
        },
    )


def _of_provider(name: str, bad: Mapping[str, str], good: str | None = None) -> Example:
    return Example(good or f"{PROVIDER[name]}2", bad, PROVIDER)


EXAMPLES: Final[Mapping[str, Example]] = {
    "SVC_AUTH_URL": _public("https://auth.example"),
    "SVC_BASE_URL": _public("http://127.0.0.1:9001"),
    "SVC_AUTH_INTERNAL_URL": Example(
        "http://auth:8400",
        {"auth:8400": _NO_ADDRESS, "http://auth:8400/oauth/token": _NO_ADDRESS},
    ),
    "SVC_AUTH_LISTEN": _listen(),
    "SVC_BASE_LISTEN": _listen(),
    "SVC_AUTH_METRICS_LISTEN": _listen(),
    "SVC_BASE_METRICS_LISTEN": _listen(),
    "SVC_WORKER_METRICS_LISTEN": _listen(),
    "SVC_DATA_DIR": Example("/srv/svc", {"/dev/null": "'/dev/null' is no directory"}),
    "DATABASE_URL": _url(),
    "SVC_AUTHSERVER_DATABASE_URL": _url(),
    "SVC_READER_DATABASE_URL": _url(),
    "SVC_READER_REPLICA_URL": replace(
        _url(),
        bad={
            **_url().bad,
            "dbname=svc": "names no server: it must look like postgresql://host:port",
            "host=DB port=5432": "SVC_READER_REPLICA_URL and SVC_READER_DATABASE_URL name the same server",
        },
        good="postgresql://replica:5433",
        beside={"SVC_READER_DATABASE_URL": "postgresql://svc_reader@db/svc"},
    ),
    "SVC_INGESTER_DATABASE_URL": _url(),
    "SVC_IMPORTER_DATABASE_URL": _url(),
    "SVC_WORKER_DATABASE_URL": _url(),
    "SVC_COOKIE_KEY": _secret(Example(KEY, {"hunter2": "fewer than 32 characters"})),
    "SVC_DASHBOARD_KEY": _secret(Example(KEY, {"hunter2": "fewer than 32 characters"})),
    "SVC_SEALING_PUBLIC_KEY": Example(
        PUBLIC_KEY,
        {
            PRIVATE_KEY: _NO_KEY,
            PUBLIC_KEY[:-1]: _NO_KEY,
        },
    ),
    "SVC_SEALING_PRIVATE_KEYS": _secret(
        Example(
            PRIVATE_KEY,
            {
                PUBLIC_KEY: _NO_KEY,
                f"{PRIVATE_KEY},hunter2": _NO_KEY,
            },
        )
    ),
    "SVC_FETCH_NETWORKS": _networks("192.168.7.0/24", "every machine inside"),
    "SVC_FULL_URLS": _switch("on"),
    "SVC_LOOPBACK_PORT_MAY_VARY": _switch("off"),
    "SVC_DEVICE_AUTHORIZATION": _switch("on"),
    "SVC_CLIENT_METADATA_DOCUMENTS": _switch("on"),
    "SVC_DATABASE_PREPARE": _switch("off"),
    "SVC_QUICK_CONNECTIONS": _count("11", "0", "1001"),
    "SVC_PATIENT_CONNECTIONS": _count("12", "0", "1001"),
    "SVC_INGEST_CONNECTIONS": _count("13", "0", "1001"),
    "SVC_EXPORT_CONNECTIONS": _count("14", "0", "1001"),
    "SVC_JOB_CONNECTIONS": _count("15", "0", "1001"),
    "SVC_AUTH_CONNECTIONS": _count("16", "0", "1001"),
    "SVC_AUTH_SLOW_CONNECTIONS": _count("1000", "0", "1001"),
    "SVC_TRUSTED_PROXIES": _networks("10.0.0.0/8", "everybody cannot be trusted"),
    "SVC_PROVIDER_ISSUER": _of_provider(
        "SVC_PROVIDER_ISSUER",
        {
            "": _NEEDED,
            "http://login.example": "must look like https://host or https://host/path",
            "https://user:hunter2@login.example": "'https://...@login.example' must look like",
            "https://login.example?hunter2": "'https://login.example' must look like",
        },
    ),
    "SVC_PROVIDER_CLIENT_ID": _of_provider(
        "SVC_PROVIDER_CLIENT_ID", {"": _NEEDED, "s\nvc": _UNREADABLE, "x" * 201: _UNREADABLE}
    ),
    "SVC_PROVIDER_CLIENT_SECRET": _secret(
        _of_provider("SVC_PROVIDER_CLIENT_SECRET", {"": _NEEDED})
    ),
    "SVC_PROVIDER_NAME": _of_provider(
        "SVC_PROVIDER_NAME", {"": _NEEDED, "Exam\nple": _UNREADABLE, "x" * 41: _UNREADABLE}
    ),
    "SVC_PROVIDER_DOMAINS": _of_provider(
        "SVC_PROVIDER_DOMAINS",
        {"*.example.org": "is not a domain such as example.org"},
        "example.org",
    ),
    "SVC_PROVIDER_LOGOUT_ENDS_GRANTS": _of_provider(
        "SVC_PROVIDER_LOGOUT_ENDS_GRANTS", {"maybe": _NO_SWITCH}, "on"
    ),
    "SVC_OPERATOR_CONTACT": Example("Ada", {"A\nda": _UNREADABLE, "x" * 201: _UNREADABLE}),
    "SVC_RECEIVERS": Example("wakatime", {"fax": "'fax' is none of wakatime"}),
    "SVC_RECEIVER_CONNECTIONS": _count("17", "0", "1001"),
    "SVC_MCP_ORIGINS": Example(
        "https://inspector.example",
        {
            "*": "must name one host",
            "https://b\u00fccher.example": "must name one host",
            "https://a.example/path": _NO_ADDRESS,
            "https://user:hunter2@a.example": _NO_ADDRESS,
        },
    ),
    "SVC_REGISTRATIONS_PER_HOUR": _count("40"),
    "SVC_MCP_CALLS_PER_MINUTE": _count("60"),
    "SVC_UPLOAD_DIR": Example("/srv/uploads", {"/dev/null": "'/dev/null' is no directory"}),
    "SVC_STORAGE_DIR": Example("/srv/postgres", {"/dev/null": "'/dev/null' is no directory"}),
    "SVC_STORAGE_RESERVE_MIB": _count("31"),
    "SVC_KEEP_RAW_YEARS": _count("3", "0", "101"),
    "SVC_BACKUP_DIR": Example("/srv/backups", {"/dev/null": "'/dev/null' is no directory"}),
    "SVC_UPLOAD_MIB": _count("30", "0"),
    "SVC_UPLOAD_FREE_MIB": _count("31"),
    "SVC_REFRESHES_PER_HOUR": _count("7"),
    "SVC_REFRESH_RETRY_SECONDS": _count("30", "31"),
    "SVC_DRAIN_SECONDS": _count("10", "301"),
    "SVC_DEPLOYMENT": Example("hosted", {"cloud": "is neither self_hosted nor hosted"}),
    "SVC_JOBS": _switch("off"),
    "SVC_WORKER": _switch("on"),
    "SVC_LOG_FORMAT": Example("json", {"xml": "is neither text nor json"}),
    "SVC_BUILD_COMMIT": Example("0123abc", {"01\n23": _UNREADABLE, "x" * 201: _UNREADABLE}),
    "SVC_BUILD_TIME": Example("2026-01-01T00:00:00Z", {"x\x1b": _UNREADABLE}),
    "SVC_PROCESSES": _count("4", "0"),
    "NOTIFY_SOCKET": Example(
        "/run/systemd/notify",
        {"run/notify": "is neither a path nor an abstract name", "vsock:2:1": "is neither a path"},
    ),
    "SVC_LIFELINE": Example(
        "7", {"-1": "is no file descriptor", "\u0667": "is no file descriptor"}
    ),
}

CONTRADICTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "SVC_AUTH_URL and SVC_BASE_URL are both https://svc.example: each server needs": {
        "SVC_AUTH_URL": "https://svc.example",
        "SVC_BASE_URL": "https://SVC.example:443/",
    },
    "SVC_SEALING_PUBLIC_KEY: no key of SVC_SEALING_PRIVATE_KEYS opens": {
        "SVC_SEALING_PUBLIC_KEY": OTHER_PUBLIC_KEY,
        "SVC_SEALING_PRIVATE_KEYS": PRIVATE_KEY,
    },
    "SVC_READER_REPLICA_URL is set, and the reader has no login at the primary": {
        "SVC_READER_REPLICA_URL": "postgresql://u:hunter2@replica",
        "SVC_AUTHSERVER_DATABASE_URL": "postgresql://u:hunter2@db/svc",
    },
    "SVC_READER_REPLICA_URL and DATABASE_URL name the same server": {
        "SVC_READER_REPLICA_URL": "postgresql://u:hunter2@db:5432",
        "DATABASE_URL": "postgresql://u:hunter2@db/svc",
    },
    "SVC_PROVIDER_ISSUER, SVC_PROVIDER_CLIENT_ID, SVC_PROVIDER_CLIENT_SECRET, SVC_PROVIDER_NAME: needed": {
        "SVC_PROVIDER_LOGOUT_ENDS_GRANTS": "on",
    },
}
"""Variables that can be used alone and not together, by the beginning of the message."""
