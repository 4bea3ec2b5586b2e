"""Whatever is in a file, its reader yields records and refusals, or says why it cannot go on."""

import json
import random
from typing import Any, Final

import pytest

from resourceserver.integrations.format import Format
from resourceserver.integrations.values import EXAMPLE_LENGTH, key
from tests.integrations.formats.test_recognition import each_format, sample_of
from tests.integrations.memory import MemoryFile, read

DAMAGED_FILES: Final = 60
STRANGE: Final[tuple[Any, ...]] = (
    *(None, True, 5, -1, 1e308, 10**400, "", "x", "\0", "\ud800", "9" * 400, "NaN", float("nan")),
    *([], {}, [[]], [None], {"a": 1}, "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00"),
)
"""Values that no service writes where others are expected."""


def damaged_json(value: Any, chance: random.Random) -> Any:
    """Return a value of JSON with some of its parts replaced or left out."""
    if chance.random() < 0.04:
        return chance.choice(STRANGE)
    if isinstance(value, dict):
        kept = {name: each for name, each in value.items() if chance.random() > 0.01}
        return {name: damaged_json(each, chance) for name, each in kept.items()}
    if isinstance(value, list):
        return [damaged_json(each, chance) for each in value]
    return value


def damaged_bytes(content: bytes, chance: random.Random) -> bytes:
    """Return bytes of which some are replaced, left out, repeated or cut off."""
    damaged = bytearray(content)
    for _ in range(chance.randint(1, 5)):
        at = chance.randrange(len(damaged) + 1)
        what = chance.randrange(4)
        if what == 0:
            damaged[at : at + 1] = chance.randbytes(1)
        elif what == 1:
            del damaged[at : at + chance.randint(1, 30)]
        elif what == 2:
            damaged[at:at] = damaged[: chance.randint(1, 60)]
        else:
            damaged[at:at] = bytes(chance.choices(b'09,;"\n\t:<>[]{}-+TZ\0\xff', k=3))
    return bytes(damaged)


@each_format
def test_damage_raises_nothing_but_unreadable(format_: Format) -> None:
    sample = sample_of(format_)
    chance = random.Random(format_.name)
    is_json = sample.content[:1] in {b"{", b"["} and sample.content.count(b"\n{") == 0

    for number in range(DAMAGED_FILES):
        if is_json and number % 2:
            value = damaged_json(json.loads(sample.content), chance)
            content = json.dumps(value).encode()
        else:
            content = damaged_bytes(sample.content, chance)
        reading = read(format_, content, sample.name)

        assert format_.recognise(MemoryFile(content, sample.name).head) >= 0
        assert all(0 < len(each.key) <= 200 for each in reading.records), content
        assert all(len(each.example) <= EXAMPLE_LENGTH for each in reading.refused), content


@pytest.mark.parametrize("part", ["x" * 500, "\0" * 150, "é\ud800", ""])
def test_a_key_is_short_and_printable_whatever_it_is_made_of(part: str) -> None:
    short = key(part, "x\n")

    assert 0 < len(short) <= 200
    assert short.isprintable()
