"""Passwords: which ones are acceptable, and their hashes (Argon2id)."""

import asyncio
import re
import secrets
import statistics
import time
import unicodedata
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Final, TypeVar, TypeVarTuple

import anyio
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import ARGON2_VERSION

from authserver.errors import TemporarilyUnavailable
from authserver.people import single_thread
from shared import priority

Result = TypeVar("Result")
Texts = TypeVarTuple("Texts")

MIN_CHARACTERS: Final = 12
MAX_BYTES: Final = 1024

_MAX_WAITING: Final = 40
"""The most passwords that wait for each of the two places."""
_MEASURED: Final = 15
"""How many of the last durations the median is taken from."""

# Common words in passwords. Digits and symbols are removed from a password before it is compared with
# these words and their repetitions, so their many variants need no list.
_COMMON_WORDS: Final = (
    "password passwort passwd passphrase secret geheim admin administrator root user guest login "
    "welcome willkommen letmein hello hallo test testing default changeme master dragon monkey "
    "iloveyou ichliebedich sunshine princess football baseball basketball superman batman starwars "
    "pokemon naruto computer internet google facebook samsung company service activity analytics "
    "trustno whatever freedom shadow forever please mylove lovely family flower butterfly chocolate "
    "cookie banana cheese pepper ginger diamond golden killer access security secure thisisa thisismy "
    "mypassword qwerty qwertz azerty asdf qwe asd zxc abc xyz "
    "summer winter spring autumn sommer herbst january february march april june july august "
    "september october november december januar februar oktober dezember monday tuesday wednesday "
    "thursday friday saturday sunday montag freitag sonntag "
    "alexander andrea andrew anthony ashley benjamin charlie charlotte christian daniel david "
    "elizabeth emily gabriel george hannah jackson jasmine jennifer jessica jonathan jordan joshua "
    "justin lauren madison maria martin matthew melissa michael michelle natalie nicholas nicole "
    "olivia patrick rebecca richard robert samantha sebastian stephanie thomas tigger vanessa "
    "victoria william arsenal barcelona chelsea juventus liverpool manchester realmadrid"
)
# Famous phrases that are not acceptable when written as one word.
_FAMOUS_PHRASES: Final = ("correcthorsebatterystaple",)
_REPETITION: Final = re.compile(r"(.{1,6}?)\1+", re.DOTALL)
_COMMON_WORD: Final = re.compile("|".join(sorted(_COMMON_WORDS.split(), key=len, reverse=True)))
_ROWS: Final = (
    "abcdefghijklmnopqrstuvwxyz",
    "qwertyuiopasdfghjklzxcvbnm",
    "qwertzuiopasdfghjklyxcvbnm",
    "azertyuiopqsdfghjklmwxcvbn",
    "01234567890123456789",
    "1q2w3e4r5t6y7u8i9o0p",
    "q1w2e3r4t5y6u7i8o9p0",
    "123qweasdzxc123",
    "1234qwerasdfzxcv1234",
    "1qaz2wsx3edc4rfv5tgb6yhn7ujm",
)
_PLAIN: Final = str.maketrans("013457@$!|", "oieastasil")


class UnacceptablePassword(Exception):
    """The password is not acceptable. The message gives the person the reason."""


class TooManySignIns(TemporarilyUnavailable):
    """Too many people are signing in at this moment; try again in a few seconds."""


def check(password: str, email: str) -> None:
    """Check that ``password`` is acceptable as a new password. Raises UnacceptablePassword."""
    text = _bounded(password)
    if text is None:
        raise UnacceptablePassword(f"Use at most {MAX_BYTES} bytes, which is about a page of text.")
    if len(text) < MIN_CHARACTERS:
        raise UnacceptablePassword(f"Use at least {MIN_CHARACTERS} characters.")
    if _is_common(text.lower()) or _is_mostly(text.lower(), email.partition("@")[0].lower()):
        raise UnacceptablePassword(
            "This one is easy to guess. A few unrelated words make a good password."
        )


def normalized(password: str) -> str:
    """Return the Unicode form that is hashed, the same for every keyboard (RFC 8265)."""
    return unicodedata.normalize("NFKC", password)


def _bounded(password: str) -> str | None:
    """Return the Unicode form that is hashed, or None for a password longer than the limit."""
    # Normalizing takes time quadratic in the number of combining marks, so the length is checked first.
    if len(password) > MAX_BYTES:
        return None
    text = normalized(password)
    return text if len(text.encode()) <= MAX_BYTES else None


def _is_common(text: str) -> bool:
    if len(set(text)) < 5 or text.isdecimal() or _is_walk(text) or _REPETITION.fullmatch(text):
        return True
    plain = (text, text.translate(_PLAIN))
    if any(phrase in form for phrase in _FAMOUS_PHRASES for form in plain):
        return True
    return any(_consists_of_common_words(re.sub(r"[\W\d_]", "", form)) for form in plain)


def _consists_of_common_words(letters: str) -> bool:
    """Whether ``letters`` consists of common words, except for at most three letters."""
    rest = _COMMON_WORD.sub("", letters)
    return len(rest) < len(letters) and len(rest) <= 3


def _is_walk(text: str) -> bool:
    """Whether most steps from one character to the next follow the alphabet, digits or a keyboard."""
    steps = {pair for row in _ROWS for pair in pairwise(row)}
    steps |= {(right, left) for left, right in steps}
    walked = sum(pair in steps or pair[0] == pair[1] for pair in pairwise(text))
    return walked * 4 >= (len(text) - 1) * 3


def _is_mostly(text: str, name: str) -> bool:
    return len(name) >= 4 and name in text and len(text) - len(name) < 6


def _decoy(argon2: PasswordHasher) -> str:
    """Return a string in the format of a hash with the parameters of ``argon2``, matching no password.

    Verifying it takes as long as verifying a real hash. It is random instead of computed, because
    computing one would delay every start of the server and every command.
    """
    salt, digest = (
        b64encode(secrets.token_bytes(length)).rstrip(b"=").decode()
        for length in (argon2.salt_len, argon2.hash_len)
    )
    return (
        f"$argon2id$v={ARGON2_VERSION}$m={argon2.memory_cost},t={argon2.time_cost},p={argon2.parallelism}"
        f"${salt}${digest}"
    )


@dataclass(frozen=True)
class _Place:
    """One thread that hashes, and the queue before it."""

    threads: ThreadPoolExecutor
    limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    durations_s: deque[float] = field(default_factory=lambda: deque(maxlen=_MEASURED))
    """How long the last verifications took, without the time in the queue."""
    first_measurement: anyio.Lock = field(default_factory=anyio.Lock)

    @classmethod
    def of(cls, prepare: Callable[[], None]) -> "_Place":
        """Return a place whose thread calls ``prepare`` first, to give way to other requests.

        It has a thread of its own, because a process without privileges cannot raise a priority again.
        """
        return cls(ThreadPoolExecutor(1, "hash", prepare))

    @property
    def waiting(self) -> int:
        """How many passwords wait."""
        return self.limiter.statistics().tasks_waiting

    @property
    def ahead(self) -> int:
        """How many passwords a new one waits for."""
        return self.waiting + self.limiter.borrowed_tokens

    async def run(self, work: Callable[[], Result]) -> Result:
        """Run ``work`` when it is its turn."""
        async with self.limiter:
            return await asyncio.wrap_future(self.threads.submit(work))


def _give_way_to_all() -> None:
    priority.give_way()
    priority.leave_half()


@dataclass(frozen=True)
class Hasher:
    """Hashes and verifies in threads, at most two at once: one in each of two places.

    One place is for everybody. The other is kept for known people: those who are signed in or have a one-time
    link, and browsers that have signed in to the account before. So strangers who fill the queue delay only
    each other. Each hash needs 64 MiB and computes in four threads; more at a time would only delay
    everything else. Strangers' passwords are verified in one thread: beside four threads that are replaced
    twelve times a hash, requests of others waited three times as long for a processor.
    """

    argon2: PasswordHasher = field(default_factory=PasswordHasher)
    """By default with the parameters that RFC 9106 recommends for machines with little memory."""
    place: _Place = field(default_factory=partial(_Place.of, _give_way_to_all))
    known_place: _Place = field(
        default_factory=partial(_Place.of, partial(priority.give_way, priority.LITTLE_LOWER))
    )
    """The place for known people. Strangers' passwords give way to theirs."""
    verify_for_strangers: Callable[[str, str], object] = single_thread.verify
    decoy: str = field(init=False, repr=False)
    """The hash that is verified when there is no account or no password."""

    def __post_init__(self) -> None:
        """Set the decoy."""
        object.__setattr__(self, "decoy", _decoy(self.argon2))

    async def hash(self, password: str, *, is_known: bool = False) -> str:
        """Return the hash of ``password``, in the place for known people if ``is_known``.

        Raises TooManySignIns.
        """
        return await self._run(is_known, self.argon2.hash, normalized(password))

    async def verify(self, stored: str | None, password: str, *, is_known: bool = False) -> bool:
        """Return whether ``password`` matches the hash ``stored``.

        Without a hash, the decoy is verified, so that the duration does not reveal whether there is an
        account. Raises TooManySignIns.
        """
        text = _bounded(password)
        if text is None:
            # No account has such a password. Another text is hashed to keep the duration the same.
            text = ""
        verify = self.argon2.verify if is_known else self.verify_for_strangers
        matches = partial(_matches, verify, self._place(is_known).durations_s)
        is_right = await self._run(is_known, matches, stored or self.decoy, text)
        return is_right and stored is not None

    async def pause(self, *, is_known: bool = False) -> None:
        """Wait as long as ``verify`` would take now, but outside of the queue and without any work.

        Raises TooManySignIns.
        """
        place = self._place(is_known)
        if not place.durations_s:
            # Nothing was measured since the server started. One attempt measures; others wait for it.
            async with place.first_measurement:
                if not place.durations_s:
                    await self.verify(None, "", is_known=is_known)
                    return
        await anyio.sleep(self.expected_s(is_known=is_known))

    def expected_s(self, *, is_known: bool = False) -> float:
        """Return how long ``verify`` would take now: the queue, and the median of the last durations."""
        # Strangers' passwords take longer, so each place has a median of its own.
        place = self._place(is_known)
        return statistics.median(place.durations_s) * (1 + place.ahead)

    def is_outdated(self, stored: str) -> bool:
        """Return whether ``stored`` was hashed with parameters other than the current ones."""
        return self.argon2.check_needs_rehash(stored)

    def _place(self, is_known: bool) -> _Place:
        return self.known_place if is_known else self.place

    async def _run(
        self, is_known: bool, work: Callable[[*Texts], Result], *given: *Texts
    ) -> Result:
        place = self._place(is_known)
        if place.waiting >= _MAX_WAITING:
            raise TooManySignIns
        return await place.run(partial(work, *given))


def _matches(
    verify: Callable[[str, str], object], durations_s: deque[float], stored: str, password: str
) -> bool:
    """Return whether the password matches, and add how long that took."""
    begun = time.perf_counter()
    try:
        verify(stored, password)
    except (VerificationError, InvalidHashError):
        return False
    finally:
        durations_s.append(time.perf_counter() - begun)
    return True
