"""Text on a terminal: what it draws, how wide it is, and tables that fit."""

import pty
import sys
import termios
from collections.abc import Callable
from io import RawIOBase

import pytest

from shared import screen

OnScreen = Callable[[int, Callable[[], None]], str]


@pytest.fixture
def on_screen(monkeypatch: pytest.MonkeyPatch) -> OnScreen:
    """Returns what a function prints on a terminal with so many columns."""

    def run(columns: int, print_something: Callable[[], None]) -> str:
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (24, columns))
        monkeypatch.delenv("COLUMNS", raising=False)
        with monkeypatch.context() as patched, open(theirs, "w", encoding="utf-8") as terminal:
            patched.setattr(sys, "stdout", terminal)
            patched.setattr(sys, "__stdout__", terminal)
            print_something()
        with open(ours, "rb", buffering=0) as written:
            # Reading a terminal ends with an error once no process has it open any more.
            text = b"".join(iter(lambda: _read(written), b"")).decode()
        return text.replace("\r\n", "\n")

    return run


def _read(written: RawIOBase) -> bytes:
    try:
        return written.read(1000) or b""
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("given", "drawn"),
    [
        ("a\x1b[31mb\x9bc\td\x7fe", "a[31mbcde"),
        ("left\u202eright\u2066\u200b\u200d\ufeff", "leftright"),
        ("a\u3164\ufe0f\u115fb", "ab"),
        ("e\u0301" + "\u0301" * 1000, "e" + "\u0301" * 4),
        ("\udcff", ""),
        ("漢字 שמש", "漢字 שמש"),
    ],
)
def test_plain_text_has_nothing_that_a_terminal_interprets(given: str, drawn: str) -> None:
    assert screen.plain(given) == drawn


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("abc", 3),
        ("漢字", 4),
        ("ﾊﾝ", 2),
        ("e\u0301", 1),
        ("👩", 2),
        ("שמש", 3),
        ("한", 2),
        ("", 0),
    ],
)
def test_the_width_is_that_of_a_terminal(text: str, columns: int) -> None:
    assert screen.width(text) == columns


@pytest.mark.parametrize(
    ("text", "columns", "cut"),
    [("abcdef", 6, "abcdef"), ("abcdef", 5, "abcd…"), ("漢字字", 4, "漢…")],
)
def test_text_is_cut_to_columns(text: str, columns: int, cut: str) -> None:
    assert screen.shortened(text, columns) == cut


def test_wide_letters_keep_their_column(capsys: pytest.CaptureFixture[str]) -> None:
    screen.table(("NAME", "TIME"), [("漢字", "1 h"), ("abcdef", "12 h")], right=("TIME",))

    assert capsys.readouterr().out == "NAME    TIME\n漢字     1 h\nabcdef  12 h\n"


@pytest.mark.parametrize(
    ("columns", "printed"),
    [
        (40, "ID    NAME\n1234  two words of some length\n5\n"),
        (29, "ID    1234\nNAME  two words of some\n      length\n\nID    5\nNAME\n"),
    ],
)
def test_a_table_fits_the_terminal(on_screen: OnScreen, columns: int, printed: str) -> None:
    def print_table() -> None:
        screen.table(("ID", "NAME"), [("1234", "two words of some length"), ("5", "")])

    assert on_screen(columns, print_table) == printed


def test_an_elastic_column_is_cut_to_fit_the_terminal(on_screen: OnScreen) -> None:
    def print_table() -> None:
        screen.table(("TIME", "NAME"), [("1 h", "a name that is long")], elastic="NAME")

    assert on_screen(30, print_table) == "TIME  NAME\n1 h   a name that is long\n"
    assert on_screen(20, print_table) == "TIME  NAME\n1 h   a name that i…\n"


def test_letters_from_right_to_left_are_isolated_on_a_screen_only(
    on_screen: OnScreen, capsys: pytest.CaptureFixture[str]
) -> None:
    def print_table() -> None:
        screen.table(("NAME", "TIME"), [("שמש", "1 h")])

    assert on_screen(80, print_table) == "NAME  TIME\n\u2068שמש\u2069   1 h\n"
    print_table()
    assert capsys.readouterr().out == "NAME  TIME\nשמש   1 h\n"
