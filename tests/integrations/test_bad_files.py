"""Files that are damaged, hostile or not what they seem, through ``svc import`` with all formats."""

import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from click.testing import CliRunner

from deploy.operators import imports
from shared.settings import Settings
from tests.conftest import Person
from tests.integrations import samples
from tests.integrations.bringing import archive
from tests.integrations.life import life

Rows = psycopg.Connection[Any]

PLAY: Final = samples.spotify_play()
LAUGHS: Final = "".join(
    f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' if n else '<!ENTITY l0 "ha">' for n in range(10)
)


def truncated_zip(folder: Path) -> Path:
    path = life(folder / "life.zip", 20)
    path.write_bytes(path.read_bytes()[:-2000])
    return path


def wrong_encoding(folder: Path) -> Path:
    path = folder / "alice.csv"
    path.write_bytes("Sigur Rós,,Hoppípolla,08 Feb 2011 22:54\n".encode("latin-1") * 3)
    return path


def byte_order_mark(folder: Path) -> Path:
    path = folder / "Streaming_History_Audio_2024.json"
    path.write_text(json.dumps([PLAY]), "utf-8-sig")
    return path


def nul(folder: Path) -> Path:
    path = folder / "Streaming_History_Audio_2024.json"
    named = PLAY | {"master_metadata_track_name": "A\0B"}
    path.write_text(json.dumps([PLAY, named | {"ts": "2024-01-01T00:00:00Z"}]))
    return path


def zip_bomb(folder: Path) -> Path:
    plays = json.dumps([PLAY]).encode()
    return archive(
        folder / "a.zip", {"bomb.json": b"[" + b" " * 60_000_000 + b"]", "a.json": plays}
    )


def climbing_name(folder: Path) -> Path:
    plays = json.dumps([PLAY]).encode()
    return archive(
        folder / "a.zip", {"../../up.json": plays, "/etc/up.json": plays, "a.json": plays}
    )


def symbolic_links(folder: Path) -> Path:
    path = folder / "a.zip"
    with zipfile.ZipFile(path, "w") as packed:
        link = zipfile.ZipInfo("link.json")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        packed.writestr(link, "/etc/passwd")
        packed.writestr("a.json", json.dumps([PLAY]))
    return path


def one_second(folder: Path) -> Path:
    points = '<trkpt lat="52" lon="4"><time>2025-06-16T08:00:00Z</time></trkpt>' * 20_000
    path = folder / "ride.gpx"
    path.write_text(
        f'<gpx xmlns="http://www.topografix.com/GPX/1/1"><trk><trkseg>{points}</trkseg></trk></gpx>'
    )
    return path


def years(folder: Path) -> Path:
    times = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0000-00-00T00:00:00Z")
    path = folder / "Streaming_History_Audio_2024.json"
    path.write_text(json.dumps([PLAY, *(PLAY | {"ts": at} for at in times)]))
    return path


def other_version(folder: Path) -> Path:
    path = folder / "export.json"
    row = {"uuid": "1", "start": "2025-06-16", "seconds": 60}
    path.write_text(
        json.dumps(
            {"exported_at": "", "version": 9, "resources": {"app_sessions": [row], "moods": [row]}}
        )
    )
    return path


def deep_json(folder: Path) -> Path:
    path = folder / "Records.json"
    path.write_text('{"locations": ' + "[" * 100_000 + "]" * 100_000 + "}")
    return path


def entities(folder: Path) -> Path:
    path = folder / "export.xml"
    record = samples.apple_record(
        *("QuantityTypeIdentifierStepCount", "2022-06-16 08:00:00 +0200"),
        *("2022-06-16 08:10:30 +0200", "212", "count"),
    )
    path.write_text(
        f'<?xml version="1.0"?><!DOCTYPE HealthData [{LAUGHS}<!ENTITY x SYSTEM "file:///etc/passwd">]>'
        f'<HealthData locale="de_DE">{record}&l9;&x;{record.replace("08:", "09:")}</HealthData>'
    )
    return path


@pytest.mark.parametrize(
    ("write", "status", "lines"),
    [
        (truncated_zip, 1, ["the file is damaged or cut off: File is not a zip file"]),
        (wrong_encoding, 0, ["3 records read, 1 new, 2 known, 0 changed, 0 refused"]),
        (byte_order_mark, 0, ["1 records read, 1 new, 0 known, 0 changed, 0 refused"]),
        (nul, 0, ["2 records read, 2 new, 0 known, 0 changed, 0 refused"]),
        (
            zip_bomb,
            0,
            [
                "1 records read, 1 new,",
                "bomb.json: it unpacks to more than 200 times its size, as no export does",
            ],
        ),
        (
            climbing_name,
            0,
            [
                "1 records read, 1 new,",
                "../../up.json: its name leads out of the archive",
                "/etc/up.json: its name leads out of the archive",
            ],
        ),
        (symbolic_links, 0, ["1 records read, 1 new,", "link.json: it is a symbolic link"]),
        (one_second, 0, ["20000 records read, 1 new, 19999 known, 0 changed, 0 refused"]),
        (
            years,
            0,
            [
                "4 records read, 1 new, 0 known, 0 changed, 3 refused",
                "refused 2: invalid_time",
                "refused 1: time_out_of_range",
            ],
        ),
        (
            other_version,
            1,
            ["refused 1: missing_id", "none of its 1 records can be used (missing_id:"],
        ),
        (deep_json, 1, ["the file is no JSON at character 16: it is nested too deeply"]),
        (
            entities,
            0,
            ["1 records read, 1 new,", "the file is no XML from here on: undefined entity"],
        ),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_bad_file_has_a_clear_receipt(
    deployment: Settings,
    alice: Person,
    owner: Rows,
    tmp_path: Path,
    write: Callable[[Path], Path],
    status: int,
    lines: list[str],
) -> None:
    assert owner
    words = [str(write(tmp_path)), "--user", alice.email]

    done = CliRunner().invoke(imports.import_files, words, obj=deployment)

    assert done.exit_code == status
    assert "Traceback" not in done.output
    for line in lines:
        assert line in done.output
