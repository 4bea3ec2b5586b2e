"""FIT: points, heart rates and totals, from files that a small encoder writes."""

from datetime import UTC, datetime
from typing import Any

from resourceserver.integrations.formats.fit import FIT
from resourceserver.integrations.records import HeartRate, Point, Sample, Sensor
from tests.integrations.memory import read, recognise
from tests.integrations.more_samples import FIT_EIGHT as EIGHT_S
from tests.integrations.more_samples import fit_file as fit
from tests.integrations.more_samples import fit_message as message

EIGHT = datetime(2025, 6, 16, 8, tzinfo=UTC)
WATCH = Sensor("garmin", "fenix7", "watch")


def semicircles(degrees: float) -> int:
    return round(degrees * 2**31 / 180)


def record(at_s: int, *more: tuple[int, str, int]) -> bytes:
    return message(20, (253, "I", at_s), *more)


FILE_ID = message(0, (0, "B", 4), (1, "H", 1), (2, "H", 3906))
SPORT = message(12, (0, "B", 1))
PLACE = ((0, "i", semicircles(52.5)), (1, "i", semicircles(-4.5)))
SESSION = message(
    18,
    (253, "I", EIGHT_S + 700),
    (2, "I", EIGHT_S),
    (7, "I", 660_000),
    (8, "I", 600_000),
    (9, "I", 250_000),
    (11, "H", 100),
)
LAP = message(19, (253, "I", EIGHT_S + 700), (2, "I", EIGHT_S), (9, "I", 250_000), (11, "H", 100))


def keys(content: bytes) -> list[Any]:
    return [each.key for each in read(FIT, content).records]


def test_points_heart_rates_and_the_totals_of_the_session_are_read_once() -> None:
    # Altitude counts fifths of a metre from -500 m, speed counts mm/s.
    reading = read(
        FIT,
        fit(
            FILE_ID,
            SPORT,
            record(EIGHT_S, *PLACE, (2, "H", 2550), (3, "B", 121), (6, "H", 3500)),
            record(EIGHT_S + 1, (3, "B", 122)),
            LAP,
            SESSION,
        ),
    )

    (point, first, second, *totals) = reading.records
    assert isinstance(point, Point)
    assert (round(point.latitude, 6), round(point.longitude, 6)) == (52.5, -4.5)
    assert point._replace(latitude=0, longitude=0) == Point(
        "pt:1750060800000",
        EIGHT,
        0,
        0,
        altitude_m=10.0,
        speed_mps=3.5,
        activity="running",
        device="garmin",
    )
    assert first == HeartRate("hr:1750060800000", EIGHT, 121, WATCH)
    assert second.bpm == 122
    ended = EIGHT.replace(minute=11)
    assert totals == [
        Sample("distance_m:1750060800000", "distance_m", EIGHT, ended, 2500.0, WATCH),
        Sample("active_energy_kj:1750060800000", "active_energy_kj", EIGHT, ended, 418.4, WATCH),
        Sample("exercise_ms:1750060800000", "exercise_ms", EIGHT, ended, 600_000.0, WATCH),
    ]
    assert reading.refused == []
    assert reading.unreadable is None


def test_a_record_without_a_time_is_refused() -> None:
    reading = read(FIT, fit(FILE_ID, message(20, *PLACE), record(5, *PLACE)))

    # A device that does not know the time counts from when it was switched on.
    assert reading.reasons == ["missing_time", "missing_time"]


def test_a_truncated_file_keeps_the_records_before_the_break() -> None:
    whole = fit(FILE_ID, record(EIGHT_S, (3, "B", 121)), record(EIGHT_S + 1, (3, "B", 122)))

    reading = read(FIT, whole[:-5])

    assert [each.bpm for each in reading.records] == [121]
    assert "no FIT from here on" in str(reading.unreadable)


def test_a_damaged_or_empty_file_is_unreadable() -> None:
    whole = bytearray(fit(FILE_ID, record(EIGHT_S, (3, "B", 121))))
    whole[-1] ^= 0xFF

    assert "no FIT" in str(read(FIT, bytes(whole)).unreadable)
    assert "no FIT" in str(read(FIT, b"\x0e").unreadable)


def test_files_are_recognised_by_their_header() -> None:
    assert recognise(FIT, fit(FILE_ID)) == 1.0
    assert recognise(FIT, b"") == 0.0
