"""The keys that seal the secrets of connections: the command, the file of ``svc up``, and their rotation."""

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from deploy.operators.sealing import sealing_group
from shared import sealing, sealing_keys, settings
from shared.sealing import Opener
from shared.settings import Settings, SettingsError
from tests.conftest import Person
from tests.connecting import connect

OLD, NEW, LOST = (sealing.new_private_key() for _ in range(3))

Rows = psycopg.Connection[Any]


def run(chosen: Settings, word: str) -> Result:
    return CliRunner().invoke(sealing_group, [word], obj=chosen)


def put(owner: Rows, person: Person, private: str, text: str) -> None:
    """Connect a calendar whose address is sealed to a key."""
    connected = connect(owner, person, "calendar")
    key_id, sealed = sealing.seal(
        sealing.public_key_of(private),
        text,
        user_id=person.user_id,
        connection_id=connected.connection_id,
        field="address",
    )
    owner.execute(
        "insert into profile.connection_secret values (%s, %s, 'address', %s, %s)",
        [person.user_id, connected.connection_id, key_id, sealed],
    )


def texts(owner: Rows, *private_keys: str) -> list[str]:
    """Return all secrets, opened with these keys alone."""
    rows = owner.execute(
        "select user_id, connection_id, field, key_id, sealed from profile.connection_secret"
    ).fetchall()
    return sorted(
        Opener(private_keys).open(
            key_id, sealed, user_id=user_id, connection_id=connection_id, field=field
        )
        for user_id, connection_id, field, key_id, sealed in rows
    )


def test_a_new_key_is_printed_as_settings(deployment: Settings) -> None:
    result = run(deployment, "new")

    chosen = settings.read(dict(line.split("=") for line in result.stdout.splitlines()))
    (private,) = chosen.sealing_private_keys
    assert chosen.sealing_public_key == sealing.public_key_of(private)


def test_rotation_seals_every_secret_to_the_newest_key(
    deployment: Settings, owner: Rows, alice: Person, bob: Person
) -> None:
    put(owner, alice, OLD, "https://calendar.example/alice")
    put(owner, alice, NEW, "https://calendar.example/alice-2")
    put(owner, bob, OLD, "https://calendar.example/bob")
    chosen = replace(deployment, sealing_private_keys=(NEW, OLD))

    first, second = run(chosen, "rotate"), run(chosen, "rotate")

    assert (first.exit_code, first.output) == (0, "sealed 2 secrets anew\n")
    assert (second.exit_code, second.output) == (0, "sealed 0 secrets anew\n")
    assert texts(owner, NEW) == [
        "https://calendar.example/alice",
        "https://calendar.example/alice-2",
        "https://calendar.example/bob",
    ]


def test_rotation_reads_all_secrets_of_many(
    deployment: Settings, owner: Rows, alice: Person
) -> None:
    connected = connect(owner, alice, "calendar")
    public = sealing.public_key_of(OLD)
    for number in range(1001):
        field = f"field_{number}"
        place = {"user_id": alice.user_id, "connection_id": connected.connection_id}
        owner.execute(
            "insert into profile.connection_secret values (%s, %s, %s, %s, %s)",
            [*place.values(), field, *sealing.seal(public, field, field=field, **place)],
        )

    result = run(replace(deployment, sealing_private_keys=(NEW, OLD)), "rotate")

    assert result.output == "sealed 1001 secrets anew\n"
    assert len(texts(owner, NEW)) == 1001


def test_rotation_leaves_what_no_key_opens_and_says_so(
    deployment: Settings, owner: Rows, alice: Person, bob: Person
) -> None:
    put(owner, alice, LOST, "https://calendar.example/lost")
    put(owner, bob, OLD, "https://calendar.example/bob")

    result = run(replace(deployment, sealing_private_keys=(NEW, OLD)), "rotate")

    assert result.exit_code == 1
    assert result.stdout == "sealed 1 secret anew\n"
    assert result.stderr == "svc: none of these keys opens 1 secret\n"
    assert texts(owner, NEW, LOST) == [
        "https://calendar.example/bob",
        "https://calendar.example/lost",
    ]


def test_rotation_without_any_key_says_where_one_could_be(
    deployment: Settings, tmp_path: Path
) -> None:
    result = run(replace(deployment, data_dir=tmp_path), "rotate")

    assert isinstance(result.exception, SettingsError)
    assert "SVC_SEALING_PRIVATE_KEYS is not set" in str(result.exception)


def test_rotation_of_the_key_of_svc_up_begins_with_a_new_key_before_the_others(
    deployment: Settings, tmp_path: Path
) -> None:
    chosen = replace(deployment, data_dir=tmp_path)
    (older,) = sealing_keys.make(tmp_path)

    result = run(chosen, "rotate")

    newest, *others = sealing_keys.read(tmp_path)
    assert result.exit_code == 0
    assert others == [older]
    assert sealing_keys.public_key(chosen) == sealing.public_key_of(newest)
    assert stat.S_IMODE((tmp_path / "sealing.json").stat().st_mode) == 0o600
    sealing_keys.keep_newest(tmp_path)
    assert sealing_keys.make(tmp_path) == (newest,)
    assert [path.name for path in tmp_path.iterdir()] == ["sealing.json"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"private_keys": []}', '{"private_keys": ["svc_sealing_private_hunter2"]}'],
)
def test_a_damaged_file_of_keys_is_named_without_its_keys(tmp_path: Path, text: str) -> None:
    (tmp_path / "sealing.json").write_text(text)

    with pytest.raises(SettingsError, match=r"sealing\.json cannot be used") as raised:
        sealing_keys.make(tmp_path)

    assert "hunter2" not in str(raised.value)
