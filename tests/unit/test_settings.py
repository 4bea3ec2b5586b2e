"""What the environment may say, and how a mistake in it is named."""

import stat
from pathlib import Path

import pytest

from shared import settings
from shared.settings import Settings, SettingsError


def test_nothing_set_is_a_local_deployment() -> None:
    chosen = settings.read({})

    assert chosen.auth_url == "http://localhost:8400"
    assert chosen.base_url == "http://localhost:8401"
    assert chosen.database_url is None


def test_what_is_handed_on_reads_the_same_without_the_owners_login() -> None:
    chosen = settings.read(
        {
            "SVC_AUTH_URL": "https://auth.example",
            "SVC_BASE_URL": "https://api.example/",
            "SVC_DATA_DIR": "/srv/svc",
            "DATABASE_URL": "postgresql://owner:hunter2@db/svc",
            "SVC_COOKIE_KEY": "key",
            "SVC_FULL_URLS": "on",
            "SVC_TRUSTED_PROXIES": " 10.0.0.0/8, 2001:DB8::1,",
            "SVC_LIFELINE": "7",
        }
    )

    handed = settings.environment(chosen, {"reader": "postgresql://r@db/svc"})

    assert "hunter2" not in str(handed)
    assert settings.read(handed) == Settings(
        auth_url="https://auth.example",
        base_url="https://api.example",
        data_dir=Path("/srv/svc"),
        role_urls={"reader": "postgresql://r@db/svc"},
        cookie_key="key",
        full_urls=True,
        trusted_proxies=("10.0.0.0/8", "2001:db8::1/128"),
        lifeline=7,
    )


def test_a_file_beats_the_value(tmp_path: Path) -> None:
    path = tmp_path / "url"
    path.write_text("postgresql://from-file\n")

    chosen = settings.read({"DATABASE_URL": "postgresql://x", "DATABASE_URL_FILE": str(path)})

    assert chosen.database_url == "postgresql://from-file"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL_FILE", "/does/not/exist"),
        ("SVC_AUTH_URL", "localhost:8400"),
        ("SVC_AUTH_URL", "ftp://host"),
        ("SVC_BASE_URL", "http://host/path"),
        ("SVC_BASE_URL", "http://host:99999"),
        ("SVC_BASE_URL", "http://user@host"),
        ("SVC_FULL_URLS", "maybe"),
        ("SVC_TRUSTED_PROXIES", "*"),
        ("SVC_TRUSTED_PROXIES", "0.0.0.0/0"),
        ("SVC_TRUSTED_PROXIES", "::/0"),
        ("SVC_TRUSTED_PROXIES", "proxy.example"),
        ("SVC_TRUSTED_PROXIES", "10.0.0.1/8"),
        ("SVC_TRUSTED_PROXIES", "10.0.0.1 10.0.0.2"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        settings.read({name: value})


def test_no_secret_is_in_the_printed_settings() -> None:
    chosen = Settings(database_url="hunter2", cookie_key="hunter2", role_urls={"reader": "hunter2"})

    assert "hunter2" not in repr(chosen)


def test_made_secrets_are_kept_for_their_owner_alone(tmp_path: Path) -> None:
    first = settings.make_secrets(tmp_path / "new")
    second = settings.make_secrets(tmp_path / "new")

    kept = list((tmp_path / "new").iterdir())
    assert first == second
    assert [path.name for path in kept] == ["secrets.json"]
    assert stat.S_IMODE(kept[0].stat().st_mode) == 0o600
    assert len(set(first.passwords.values())) == 4


def test_missing_secrets_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="svc migrate"):
        settings.read_secrets(tmp_path)
