"""Settings from the environment, and messages about wrong ones."""

import stat
from dataclasses import fields
from pathlib import Path

import pytest

from shared import sealing, settings
from shared.listening import Address
from shared.settings import Provider, Settings, SettingsError

PROVIDER = {
    "SVC_PROVIDER_ISSUER": "https://login.example/realms/us/",
    "SVC_PROVIDER_CLIENT_ID": "svc",
    "SVC_PROVIDER_CLIENT_SECRET": "hunter2",
    "SVC_PROVIDER_NAME": " Example ",
}
PRIVATE_KEY = "svc_sealing_private_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8-ZGEM"
PUBLIC_KEY = "svc_sealing_public_j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF-QdfNb"
NEWER_PRIVATE_KEY = sealing.new_private_key()


def test_without_settings_the_deployment_is_local() -> None:
    chosen = settings.read({})

    assert chosen.auth_url == "http://localhost:8400"
    assert chosen.base_url == "http://localhost:8401"
    assert chosen.database_url is None


def test_a_process_without_the_readers_login_is_passed_on_no_replica() -> None:
    chosen = settings.read(
        {
            "DATABASE_URL": "postgresql://owner@db/svc",
            "SVC_READER_REPLICA_URL": "postgresql://replica",
        }
    )
    inherited = {"SVC_READER_REPLICA_URL_FILE": "/run/secrets/replica"}

    passed_on = settings.environment(chosen, {"authserver": "postgresql://a@db/svc"})

    assert settings.read(inherited | passed_on).reader_replica_url is None


def test_passed_on_settings_are_equal_without_the_owners_login() -> None:
    chosen = settings.read(
        {
            "SVC_AUTH_URL": "https://auth.example",
            "SVC_BASE_URL": "https://api.example/",
            "SVC_AUTH_INTERNAL_URL": "http://auth:8400/",
            "SVC_AUTH_LISTEN": " 127.0.0.1:8400, [::1]:8400",
            "SVC_BASE_LISTEN": "localhost:8401",
            "SVC_DATA_DIR": "/srv/svc",
            "DATABASE_URL": "postgresql://owner:hunter2@db/svc",
            "SVC_READER_REPLICA_URL": "postgresql://replica",
            "SVC_COOKIE_KEY": "k" * 32,
            "SVC_DASHBOARD_KEY": "another" * 5,
            "SVC_SEALING_PUBLIC_KEY": f" {PUBLIC_KEY}",
            "SVC_SEALING_PRIVATE_KEYS": f"{NEWER_PRIVATE_KEY}, {PRIVATE_KEY},",
            "SVC_FETCH_NETWORKS": "192.168.7.0/24, FD12::/16",
            "SVC_FULL_URLS": "on",
            "SVC_LOOPBACK_PORT_MAY_VARY": "off",
            "SVC_TRUSTED_PROXIES": " 10.0.0.0/8, 2001:DB8::1,",
            "SVC_MCP_ORIGINS": " https://Inspector.example:443, http://localhost:6274/, http://[::1]:80,",
            "SVC_REGISTRATIONS_PER_HOUR": "40",
            "SVC_OPERATOR_CONTACT": " Ada, room 12 ",
            "SVC_MCP_CALLS_PER_MINUTE": "60",
            "SVC_REFRESHES_PER_HOUR": "7",
            "SVC_REFRESH_RETRY_SECONDS": "30",
            "SVC_UPLOAD_DIR": "/srv/uploads",
            "SVC_BACKUP_DIR": "/srv/backups",
            "SVC_UPLOAD_MIB": "30",
            "SVC_UPLOAD_FREE_MIB": "31",
            "SVC_STORAGE_DIR": "/srv/postgres",
            "SVC_STORAGE_RESERVE_MIB": "32",
            "SVC_KEEP_RAW_YEARS": "3",
            "SVC_QUICK_CONNECTIONS": "11",
            "SVC_PATIENT_CONNECTIONS": "12",
            "SVC_INGEST_CONNECTIONS": "13",
            "SVC_EXPORT_CONNECTIONS": "14",
            "SVC_JOB_CONNECTIONS": "15",
            "SVC_AUTH_CONNECTIONS": "16",
            "SVC_AUTH_SLOW_CONNECTIONS": "1000",
            "SVC_DRAIN_SECONDS": "20",
            "SVC_DEPLOYMENT": "hosted",
            "SVC_JOBS": "off",
            "SVC_WORKER": "on",
            "SVC_LOG_FORMAT": "json",
            "SVC_AUTH_METRICS_LISTEN": "10.0.0.5:9400",
            "SVC_BASE_METRICS_LISTEN": "localhost:9410, 10.0.0.5:9410",
            "SVC_WORKER_METRICS_LISTEN": "[::1]:9420",
            "SVC_PROCESSES": "4",
            "SVC_LIFELINE": "7",
            "NOTIFY_SOCKET": "/run/systemd/notify",
        }
    )

    handed = settings.environment(chosen, {"reader": "postgresql://r@db/svc"})

    assert "hunter2" not in str(handed)
    assert settings.read(handed) == Settings(
        auth_url="https://auth.example",
        base_url="https://api.example",
        auth_internal_url="http://auth:8400",
        auth_listen=(Address("127.0.0.1", 8400), Address("::1", 8400)),
        base_listen=(Address("localhost", 8401),),
        data_dir=Path("/srv/svc"),
        role_urls={"reader": "postgresql://r@db/svc"},
        reader_replica_url="postgresql://replica",
        cookie_key="k" * 32,
        dashboard_key="another" * 5,
        sealing_public_key=PUBLIC_KEY,
        sealing_private_keys=(NEWER_PRIVATE_KEY, PRIVATE_KEY),
        fetch_networks=("192.168.7.0/24", "fd12::/16"),
        full_urls=True,
        loopback_port_may_vary=False,
        client_metadata_documents=True,
        trusted_proxies=("10.0.0.0/8", "2001:db8::1/128"),
        mcp_origins=("https://inspector.example", "http://localhost:6274", "http://[::1]"),
        registrations_per_hour=40,
        operator_contact="Ada, room 12",
        mcp_calls_per_minute=60,
        refreshes_per_hour=7,
        refresh_retry_s=30,
        drain_s=20,
        upload_dir=Path("/srv/uploads"),
        backup_dir=Path("/srv/backups"),
        upload_mib=30,
        upload_free_mib=31,
        storage_dir=Path("/srv/postgres"),
        storage_reserve_mib=32,
        keep_raw_years=3,
        quick_connections=11,
        patient_connections=12,
        ingest_connections=13,
        export_connections=14,
        job_connections=15,
        auth_connections=16,
        auth_slow_connections=1000,
        deployment="hosted",
        jobs=False,
        worker=True,
        log_format="json",
        auth_metrics_listen=(Address("10.0.0.5", 9400),),
        base_metrics_listen=(Address("localhost", 9410), Address("10.0.0.5", 9410)),
        worker_metrics_listen=(Address("::1", 9420),),
        processes=4,
        lifeline=7,
        notify_socket="/run/systemd/notify",
    )


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, "~/.local/state/svc"),
        ({"XDG_STATE_HOME": ""}, "~/.local/state/svc"),
        ({"XDG_STATE_HOME": "relative"}, "~/.local/state/svc"),
        ({"XDG_STATE_HOME": "/srv/state"}, "/srv/state/svc"),
    ],
)
def test_state_is_kept_in_the_directory_of_xdg_state_home(given: dict[str, str], read: str) -> None:
    assert settings.read(given).state_dir == Path(read)


def test_the_login_is_kept_in_the_directory_of_xdg_config_home() -> None:
    given = {"XDG_CONFIG_HOME": "/srv/config", "XDG_STATE_HOME": "/srv/state"}

    assert settings.read(given).config_dir == Path("/srv/config/svc")
    assert settings.read({}).config_dir == Path("~/.config/svc")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({}, "/srv/svc/uploads"),
        ({"SVC_UPLOAD_DIR": "/srv/uploads"}, "/srv/uploads"),
        ({"SVC_UPLOAD_DIR": "off"}, None),
        ({"SVC_DEPLOYMENT": "hosted"}, None),
        ({"SVC_DEPLOYMENT": "hosted", "SVC_UPLOAD_DIR": "/srv/uploads"}, "/srv/uploads"),
    ],
)
def test_uploads_have_a_directory_unless_the_operator_serves_others(
    given: dict[str, str], read: str | None
) -> None:
    chosen = settings.read({"SVC_DATA_DIR": "/srv/svc"} | given)

    assert chosen.upload_dir == (None if read is None else Path(read))
    assert settings.read(settings.environment(chosen, {})).upload_dir == chosen.upload_dir


def test_a_provider_is_read_and_passed_on_unchanged() -> None:
    chosen = settings.read(PROVIDER | {"SVC_PROVIDER_DOMAINS": " Example.ORG, sub.example.com ,"})

    assert chosen.provider == Provider(
        issuer="https://login.example/realms/us/",
        client_id="svc",
        client_secret="hunter2",
        name="Example",
        domains=("example.org", "sub.example.com"),
    )
    assert settings.read(settings.environment(chosen, {})).provider == chosen.provider


def test_a_provider_without_domains_accepts_no_address_by_its_domain() -> None:
    chosen = settings.read(PROVIDER)

    assert chosen.provider is not None
    assert chosen.provider.domains == ()


def test_a_providers_secret_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("from-file\n")

    chosen = settings.read(PROVIDER | {"SVC_PROVIDER_CLIENT_SECRET_FILE": str(path)})

    assert chosen.provider is not None
    assert chosen.provider.client_secret == "from-file"


@pytest.mark.parametrize("missing", sorted(PROVIDER))
def test_an_incomplete_provider_names_the_missing_settings(missing: str) -> None:
    with pytest.raises(SettingsError, match=f"{missing}: needed"):
        settings.read(PROVIDER | {missing: ""})


def test_domains_without_a_provider_are_a_mistake() -> None:
    with pytest.raises(SettingsError, match="SVC_PROVIDER_ISSUER"):
        settings.read({"SVC_PROVIDER_DOMAINS": "example.org"})


@pytest.mark.parametrize(
    "issuer",
    ["http://localhost:8080", "http://127.0.0.1:1/x", "http://[::1]:1", "https://a.example"],
)
def test_a_provider_answers_over_https_or_on_this_machine(issuer: str) -> None:
    chosen = settings.read(PROVIDER | {"SVC_PROVIDER_ISSUER": issuer})

    assert chosen.provider is not None
    assert chosen.provider.issuer == issuer


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ISSUER", "login.example"),
        ("ISSUER", "http://login.example"),
        ("ISSUER", "http://localhost.example"),
        ("ISSUER", "https://login.example?"),
        ("ISSUER", "https://login.example#x"),
        ("ISSUER", "https://user@login.example"),
        ("ISSUER", "https://login.example:99999"),
        ("ISSUER", "https://login.example/a b"),
        ("ISSUER", "ftp://login.example"),
        ("NAME", "x" * 41),
        ("NAME", "Exam\u202eple"),
        ("NAME", "Exam\nple"),
        ("DOMAINS", "*"),
        ("DOMAINS", "*.example.org"),
        ("DOMAINS", "alice@example.org"),
        ("DOMAINS", "org"),
        ("DOMAINS", "example.org example.com"),
    ],
)
def test_a_wrong_setting_of_the_provider_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"SVC_PROVIDER_{name}"):
        settings.read(PROVIDER | {f"SVC_PROVIDER_{name}": value})


def test_a_file_beats_the_value(tmp_path: Path) -> None:
    path = tmp_path / "url"
    path.write_text("postgresql://from-file\n")

    chosen = settings.read({"DATABASE_URL": "postgresql://x", "DATABASE_URL_FILE": str(path)})

    assert chosen.database_url == "postgresql://from-file"


def test_the_public_key_for_sealing_is_by_default_that_of_the_newest_private_key() -> None:
    newest_first = {"SVC_SEALING_PRIVATE_KEYS": f"{PRIVATE_KEY},{NEWER_PRIVATE_KEY}"}

    assert settings.read(newest_first).sealing_public_key == PUBLIC_KEY
    assert settings.read({}).sealing_public_key is None


def test_a_public_key_that_no_private_key_belongs_to_is_refused() -> None:
    with pytest.raises(SettingsError, match="SVC_SEALING_PUBLIC_KEY: no key of") as raised:
        settings.read(
            {
                "SVC_SEALING_PUBLIC_KEY": PUBLIC_KEY,
                "SVC_SEALING_PRIVATE_KEYS": NEWER_PRIVATE_KEY,
            }
        )

    assert NEWER_PRIVATE_KEY not in str(raised.value)


def test_private_keys_for_sealing_may_be_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(f"{NEWER_PRIVATE_KEY},{PRIVATE_KEY}\n")

    chosen = settings.read({"SVC_SEALING_PRIVATE_KEYS_FILE": str(tmp_path / "keys")})

    assert chosen.sealing_private_keys == (NEWER_PRIVATE_KEY, PRIVATE_KEY)


def test_no_secret_is_in_the_printed_settings() -> None:
    chosen = Settings(
        database_url="hunter2",
        cookie_key="hunter2",
        dashboard_key="hunter2",
        sealing_private_keys=("hunter2",),
        role_urls={"reader": "hunter2"},
        provider=settings.read(PROVIDER).provider,
    )

    assert "hunter2" not in repr(chosen)


def test_secrets_of_an_earlier_version_get_the_passwords_and_the_key_that_they_lack(
    tmp_path: Path,
) -> None:
    path = tmp_path / "secrets.json"
    path.write_text('{"passwords": {"reader": "r"}, "cookie_key": "c"}')

    first = settings.make_secrets(tmp_path)
    second = settings.make_secrets(tmp_path)

    assert first == second
    assert first.cookie_key == "c"
    assert settings.sealing_key(Settings(data_dir=tmp_path)) == first.dashboard_key
    assert first.dashboard_key is not None
    assert first.passwords["reader"] == "r"
    assert set(first.passwords) == set(settings.ROLES)
    assert [path.name for path in tmp_path.iterdir()] == ["secrets.json"]


def test_generated_secrets_are_readable_only_by_their_owner(tmp_path: Path) -> None:
    first = settings.make_secrets(tmp_path / "new")
    second = settings.make_secrets(tmp_path / "new")

    kept = list((tmp_path / "new").iterdir())
    assert first == second
    assert [path.name for path in kept] == ["secrets.json"]
    assert stat.S_IMODE(kept[0].stat().st_mode) == 0o600
    assert len(set(first.passwords.values())) == len(settings.ROLES)


def test_the_error_about_missing_secrets_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="svc migrate"):
        settings.read_secrets(tmp_path)


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ("https://Svc.example:443", "https://svc.example"),
        ("https://svc.example:443/", "https://svc.example"),
        ("http://auth.localhost:80", "http://auth.localhost"),
        ("http://localhost:443", "http://localhost:443"),
        ("https://svc.example:", "https://svc.example"),
        ("https://[2001:db8::443]", "https://[2001:db8::443]"),
    ],
)
@pytest.mark.parametrize("name", ["auth_url", "base_url"])
def test_a_public_address_is_spelled_as_browsers_spell_an_origin(
    name: str, given: str, origin: str
) -> None:
    chosen = settings.read({f"SVC_{name.upper()}": given})

    assert getattr(chosen, name) == origin


def test_by_default_four_resource_processes_and_two_authorization_processes_fit_into_a_database() -> (
    None
):
    # PostgreSQL allows 100 connections, 3 of them only for superusers.
    connections = settings.read({}).connections

    resource = connections["reader"] + connections["ingester"] + connections["worker"]
    assert 4 * resource + 2 * connections["authserver"] < 97


def test_by_default_one_worker_fits_beside_them_and_needs_ten_connections() -> None:
    chosen = settings.read({"SVC_WORKER": "on"})
    connections, worker = chosen.connections, sum(chosen.connections_of_worker.values())

    resource = connections["reader"] + connections["ingester"] + connections["worker"]
    assert worker == 10
    assert 4 * resource + 2 * connections["authserver"] + worker <= 97


@pytest.mark.parametrize(
    ("receivers", "size", "connections"),
    [("", "3", 0), ("owntracks", "3", 3), ("owntracks,wakatime", "3", 5), ("wakatime", "1", 3)],
)
def test_beats_of_editors_have_connections_of_their_own(
    receivers: str, size: str, connections: int
) -> None:
    environment = {"SVC_RECEIVERS": receivers, "SVC_RECEIVER_CONNECTIONS": size}

    assert settings.read(environment).connections["importer"] == connections


def test_the_table_has_the_default_number_of_connections() -> None:
    operating = (Path(__file__).parents[2] / "docs/OPERATING.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in operating.splitlines() if "_CONNECTIONS`" in line]

    said = {
        name.strip("` "): int(size)
        for _, names, _, sizes, _ in rows
        for name, size in zip(names.split(","), sizes.split(","), strict=True)
    }

    assert said == {
        f"SVC_{field.name.upper()}": field.default
        for field in fields(Settings)
        if field.name.endswith("_connections")
    }
