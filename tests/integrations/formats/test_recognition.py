"""Each format recognises its own files, and no format those of another."""

import pytest

from resourceserver.integrations.format import Format
from resourceserver.integrations.formats import FORMATS
from tests.integrations import more_samples, samples
from tests.integrations.memory import MemoryFile, read
from tests.integrations.samples import Sample

SAMPLES = vars(samples) | vars(more_samples)
WITHOUT_RECORDS = {"wakatime_daily"}
"""Formats that are recognised only to say what to bring instead; their own tests have their files."""
SAMPLED = [each for each in FORMATS if each.name not in WITHOUT_RECORDS]
NAMED = {"withings_heart_rates", "withings_days"}
"""Formats whose tables only their names tell from others of the service."""

each_format = pytest.mark.parametrize("format_", SAMPLED, ids=[each.name for each in SAMPLED])


def sample_of(format_: Format) -> Sample:
    sample = SAMPLES[format_.name]()
    assert isinstance(sample, Sample)
    return sample


def confidences(sample: Sample) -> dict[str, float]:
    """Return how sure each format is that a file is its own, without those that are sure it is not."""
    head = MemoryFile(sample.content, sample.name).head
    return {each.name: sure for each in FORMATS if (sure := each.recognise(head))}


def test_names_of_formats_are_unique() -> None:
    names = [each.name for each in FORMATS]

    assert len(set(names)) == len(names)


def test_each_format_has_a_sample() -> None:
    assert [each.name for each in SAMPLED if each.name not in SAMPLES] == []
    assert {each.name for each in FORMATS if not each.records} == WITHOUT_RECORDS


@each_format
def test_a_file_is_recognised_by_its_own_format_alone(format_: Format) -> None:
    sure = confidences(sample_of(format_))

    best = max(sure.values())
    assert [name for name, each in sure.items() if each == best] == [format_.name]
    assert best >= 0.5


@each_format
def test_a_file_is_recognised_whatever_its_name(format_: Format) -> None:
    if format_.name in NAMED:
        return
    sample = sample_of(format_)
    suffix = sample.name.rpartition(".")[2]
    sure = confidences(Sample(f"download.{suffix}", sample.content))

    assert max(sure, key=lambda name: sure[name]) == format_.name


@each_format
def test_a_sample_is_read_to_its_end(format_: Format) -> None:
    sample = sample_of(format_)

    reading = read(format_, sample.content, sample.name)

    assert reading.unreadable is None
    assert reading.refused == []
    assert reading.records != []


@each_format
def test_keys_are_unique_within_a_sample(format_: Format) -> None:
    sample = sample_of(format_)

    records = read(format_, sample.content, sample.name).records

    keys = [(type(each), each.key) for each in records]
    assert len(set(keys)) == len(keys)
    assert all(0 < len(each.key) <= 200 for each in records)


@each_format
def test_no_format_recognises_a_file_of_nothing(format_: Format) -> None:
    for content in (b"", b"\0" * 100, b"\xff\xfe", b"{}", b"[]", b"a\nb\n"):
        assert format_.recognise(MemoryFile(content, "file").head) == 0.0, content


@each_format
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_truncated_file_ends_in_an_explanation(format_: Format, part: float) -> None:
    sample = sample_of(format_)

    # Nothing but Unreadable may be raised, which ``read`` catches.
    reading = read(format_, sample.content[: int(len(sample.content) * part)], sample.name)

    if sample.content[:1] in {b"{", b"["}:
        assert reading.unreadable is not None or reading.refused != []


def test_the_kind_of_a_format_is_that_of_its_main_records() -> None:
    kinds = {each.source: each.kind for each in FORMATS if each.kind is not None}

    assert {kinds[source] for source in ("spotify", "lastfm")} == {"music"}
    assert (kinds["google"], kinds["whoop"], kinds["git"]) == ("location", "health", "code")
    assert (kinds["wakatime"], kinds["icalendar"]) == ("activity", "content")
