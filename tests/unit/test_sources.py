"""The list of sources beside the formats that the resource server reads."""

import re
from collections import Counter

from resourceserver.integrations.formats import FORMATS
from resourceserver.integrations.formats.git import LOG
from shared import sources
from shared.sources import FileFormat


def test_every_format_belongs_to_one_source_under_its_own_title() -> None:
    listed = Counter(each for source in sources.SOURCES for each in source.formats)

    assert listed == Counter(FileFormat(each.name, each.title, each.is_proven) for each in FORMATS)


def test_every_source_says_what_to_do_and_has_a_key_of_its_own() -> None:
    keys = [source.key for source in sources.SOURCES]

    assert len(set(keys)) == len(keys)
    assert [key for key in keys if not re.fullmatch(r"[a-z]+(-[a-z]+)*", key)] == []
    for source in sources.SOURCES:
        texts = (source.holds, source.wait, *source.steps, source.note or "None.")
        assert source.steps
        assert source.files
        assert [text for text in texts if not re.search(r"[.\w]$", text)] == [], source.key


def test_the_command_for_git_repositories_is_the_one_that_the_reader_needs() -> None:
    (git,) = (source for source in sources.SOURCES if source.key == "git")

    assert git.command is not None
    words = git.command.replace('"', "").split()
    assert words[words.index("git") + 1 : words.index("--author=YOU")] == list(LOG)
