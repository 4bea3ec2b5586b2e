"""Each setting with a value that can be used, and with those that cannot, and the sample of all settings."""

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from deploy import settings_file
from shared import settings
from shared.settings import Settings, SettingsError
from tests.unit.settings_examples import (
    CONTRADICTIONS,
    EXAMPLES,
    KEY,
    OTHER_PUBLIC_KEY,
    PRIVATE_KEY,
    PROVIDER,
)

ROOT = Path(__file__).parents[2]
DATA_DIR = {"SVC_DATA_DIR": "/srv/of/tests"}


def bad() -> Iterator[tuple[str, str, str]]:
    """Yield each variable, or its file, with each value that cannot be used and words of the message."""
    for name, example in EXAMPLES.items():
        yield from ((name, value, said) for value, said in example.bad.items())
        yield from ((f"{name}_FILE", value, said) for value, said in example.bad_file.items())


def message(variables: dict[str, str]) -> str:
    """Return the message about variables that cannot be used."""
    with pytest.raises(SettingsError) as refused:
        settings.read(variables)
    return str(refused.value)


def test_each_setting_has_examples_and_nothing_else_has() -> None:
    # A new setting needs an entry in settings_examples.py.
    assert sorted(each.name for each in settings_file.variables()) == sorted(EXAMPLES)
    assert [name for name, example in EXAMPLES.items() if not example.bad] == []


def test_each_secret_has_examples_of_files() -> None:
    secrets = {each.name for each in settings_file.variables() if each.is_secret}

    assert {name for name, example in EXAMPLES.items() if example.bad_file} == secrets


def test_the_text_of_each_field_begins_with_its_variable() -> None:
    # XDG_STATE_HOME and XDG_CONFIG_HOME are not this service's own.
    without = {"state_dir", "config_dir", "provider", "role_urls"}
    expected = {f"SVC_{each.name.upper()}" for each in fields(Settings) if each.name not in without}

    renamed = {
        "SVC_DATABASE_URL": "DATABASE_URL",
        "SVC_PREPARE": "SVC_DATABASE_PREPARE",
        "SVC_REFRESH_RETRY_S": "SVC_REFRESH_RETRY_SECONDS",
        "SVC_DRAIN_S": "SVC_DRAIN_SECONDS",
        "SVC_NOTIFY_SOCKET": "NOTIFY_SOCKET",
        "SVC_COMMIT": "SVC_BUILD_COMMIT",
        "SVC_BUILT_AT": "SVC_BUILD_TIME",
    }
    assert {renamed.get(name, name) for name in expected} <= EXAMPLES.keys()


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_setting_is_read_and_passed_on(name: str) -> None:
    example = EXAMPLES[name]
    without = {each: value for each, value in example.beside.items() if each != name}
    default = DATA_DIR | (without if name not in PROVIDER else {})

    chosen = settings.read(DATA_DIR | without | {name: example.good})

    assert chosen != settings.read(default)
    assert settings.read(settings.environment(chosen, chosen.role_urls)) == (
        chosen if name != "DATABASE_URL" else replace(settings.read(DATA_DIR), storage_dir=None)
    )


@pytest.mark.parametrize(("name", "value", "said"), list(bad()))
def test_a_setting_that_cannot_be_used_is_named_with_the_reason(
    name: str, value: str, said: str
) -> None:
    beside = {
        each: text
        for each, text in EXAMPLES[name.removesuffix("_FILE")].beside.items()
        if each != name.removesuffix("_FILE")
    }

    line = message(beside | {name: value})

    assert line.startswith(name)
    assert said in line
    assert len(line.splitlines()) == 1
    assert not any(secret in line for secret in ("hunter2", PRIVATE_KEY, "token=")), line


@pytest.mark.parametrize("said", CONTRADICTIONS)
def test_settings_that_contradict_each_other_are_named(said: str) -> None:
    line = message(dict(CONTRADICTIONS[said]))

    assert line.startswith(said)
    assert not any(secret in line for secret in ("hunter2", PRIVATE_KEY, OTHER_PUBLIC_KEY))


def test_all_settings_that_cannot_be_used_are_in_one_line() -> None:
    # Those of the provider are parts of one setting.
    names = EXAMPLES.keys() - PROVIDER.keys()

    line = message({name: next(iter(EXAMPLES[name].bad)) for name in names})

    named = {each.split()[0].removesuffix(":") for each in line.split("; ")}
    assert named >= names
    assert len(line.splitlines()) == 1


def test_a_fault_is_named_once_beside_others() -> None:
    given = PROVIDER | {"SVC_PROVIDER_ISSUER": "login.example", "SVC_JOBS": "perhaps"}

    assert message(given) == (
        "SVC_PROVIDER_ISSUER: 'login.example' must look like https://host or https://host/path; http is "
        "for loopback addresses alone; SVC_JOBS: 'perhaps' is neither on nor off"
    )


def test_a_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "key").write_bytes(b"\xff" * 40)

    line = message({"SVC_COOKIE_KEY_FILE": str(tmp_path / "key")})

    assert line == "SVC_COOKIE_KEY_FILE: the file is not text in UTF-8"


def test_a_secret_in_place_of_its_file_is_not_repeated() -> None:
    line = message({"SVC_COOKIE_KEY_FILE": KEY})

    assert line == "SVC_COOKIE_KEY_FILE: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    "url", ["http://localhost:1", "http://auth.localhost:1", "http://127.0.0.9:1", "http://[::1]:1"]
)
def test_http_is_for_addresses_of_this_machine(url: str) -> None:
    assert settings.read({"SVC_AUTH_URL": url}).auth_url == url


def test_the_sample_is_as_the_command_prints_it() -> None:
    # `make settings` writes it again.
    kept = (ROOT / "deploy/svc.env.example").read_text(encoding="utf-8")

    assert kept == settings_file.sample()


def test_the_sample_has_the_defaults_of_all_settings_that_an_operator_sets() -> None:
    lines = [line for line in settings_file.sample().splitlines() if line.startswith("#")]
    given = dict(line[1:].split("=", 1) for line in lines if line[1:2].isupper())

    assert given.keys() == {
        f"{name}_FILE" if example.bad_file else name for name, example in EXAMPLES.items()
    } - {"SVC_LIFELINE", "SVC_PROCESSES", "NOTIFY_SOCKET"}
    assert settings.read(given) == settings.read({})


def test_the_table_names_only_settings_that_exist() -> None:
    operating = (ROOT / "docs/OPERATING.md").read_text(encoding="utf-8")
    table = [line.split("|")[1] for line in operating.splitlines() if line.startswith("| `SVC_")]
    names = [
        name.strip("`").removesuffix("(_FILE)")
        for row in table
        for name in row.replace(",", "").split()
    ]

    expanded = {f"SVC_PROVIDER{name}" if name.startswith("_") else name for name in names}
    assert len(expanded) > 30
    assert expanded - EXAMPLES.keys() == set()
