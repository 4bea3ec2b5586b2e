"""The kinds of connections: what sends records here, and where the worker pulls them from.

An application that people have on their phone or in their editor **sends**: it gets a key of its own, and a
receiver of the resource server takes what it sends (``resourceserver.integrations.receivers``). From a
service **the worker pulls**, with an address, a name or a key of the person
(``resourceserver.integrations.pulls``). Pages and commands offer what is listed here.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Way = Literal["sends", "is_pulled"]
Data = Literal["activity", "music", "location", "health", "content", "code"]
State = Literal["waiting", "live", "failing", "refused", "paused", "stopped"]
"""Where a connection is (``svc.connection_state``)."""

MOST: Final = 50
"""The most connections of a person that are not stopped."""


@dataclass(frozen=True)
class Field:
    """What a person enters to connect."""

    name: str
    label: str
    hint: str = ""
    """What it looks like or where it is found, as a sentence."""
    is_secret: bool = False
    """Whether it is sealed, and never shown again."""
    is_required: bool = True
    default: str = ""
    link: str | None = None
    """The page at the service where people make it."""


@dataclass(frozen=True)
class Kind:
    """A kind of connection."""

    name: str
    """Its name in addresses, settings and commands."""
    title: str
    """Its name for people."""
    brings: str
    """What it brings, as a sentence."""
    data: Data
    """The word of the scope that opens what it brings."""
    way: Way
    source: str
    """The ``source`` of its rows."""
    key: Literal["token", "uuid"] | None = None
    """The shape of the key that its application gets (``shared.keys``)."""
    reads: str | None = None
    """The scope that the application may get as well: "may also show my totals"."""
    fields: tuple[Field, ...] = ()

    @property
    def has_secrets(self) -> bool:
        """Whether something of it is sealed."""
        return any(each.is_secret for each in self.fields)

    def is_offered(self, receivers: Collection[str], *, has_sealing_key: bool) -> bool:
        """Tell whether the operator has switched on what it needs: its receiver, or a key for secrets."""
        if self.way == "sends":
            return self.name in receivers
        return has_sealing_key or not self.has_secrets


_KINDS: Final = (
    Kind(
        "wakatime",
        "WakaTime",
        "Coding time from about a hundred editors, and from coding agents.",
        "activity",
        "sends",
        "wakatime",
        key="uuid",
        reads="read:activity",
        fields=(
            Field(
                "gap_minutes",
                "Minutes without a keystroke that end a session",
                "From 1 to 60.",
                is_required=False,
                default="15",
            ),
        ),
    ),
    Kind(
        "listenbrainz",
        "ListenBrainz",
        "Plays from music players and scrobblers that can send to ListenBrainz.",
        "music",
        "sends",
        "listenbrainz",
        key="token",
        reads="read:music",
    ),
    Kind(
        "owntracks",
        "OwnTracks",
        "Where you are, from the application on your phone.",
        "location",
        "sends",
        "owntracks",
        key="token",
    ),
    Kind(
        "overland",
        "Overland",
        "Where you are, from the application on your iPhone.",
        "location",
        "sends",
        "overland",
        key="token",
    ),
    Kind(
        "osmand",
        "OsmAnd, Traccar or GPSLogger",
        "Where you are, from an application that sends each position to an address.",
        "location",
        "sends",
        "osmand",
        key="token",
    ),
    Kind(
        "health",
        "Health from a phone",
        "Measurements, heart rate and sleep by Life Dashboard Companion, Health Auto Export or Health"
        " Connect Webhook, and the screen time of Android by the first of them.",
        "health",
        "sends",
        "phone",
        key="token",
    ),
    Kind(
        "calendar",
        "Calendar",
        "Events of a calendar with a secret address, or of a CalDAV server.",
        "content",
        "is_pulled",
        "icalendar",
        fields=(
            Field(
                "address",
                "Address",
                "It begins with https:// or webcal://. In Google Calendar it is under Settings of the"
                " calendar: Secret address in iCal format. Keep a secret address to yourself.",
                is_secret=True,
            ),
            Field(
                "user",
                "User name",
                "For CalDAV, or if the address requires one.",
                is_required=False,
            ),
            Field(
                "password",
                "Application password",
                "Make one for this connection; do not use the password of your account.",
                is_secret=True,
                is_required=False,
            ),
        ),
    ),
    Kind(
        "github",
        "GitHub",
        "Your commits, pull requests and reviews.",
        "code",
        "is_pulled",
        "github",
        fields=(
            Field(
                "token",
                "Token",
                "A fine-grained token for all repositories, which may read Contents and Pull requests.",
                is_secret=True,
                link="https://github.com/settings/personal-access-tokens/new",
            ),
        ),
    ),
    Kind(
        "gitlab",
        "GitLab",
        "Your commits, merge requests and reviews.",
        "code",
        "is_pulled",
        "gitlab",
        fields=(
            Field(
                "token",
                "Token",
                "A personal token of your GitLab server, with the scope read_api.",
                is_secret=True,
                link="https://gitlab.com/-/user_settings/personal_access_tokens",
            ),
            Field(
                "address",
                "Address of the server",
                "It begins with https://.",
                is_required=False,
                default="https://gitlab.com",
            ),
        ),
    ),
    Kind(
        "listenbrainz_user",
        "ListenBrainz account",
        "The plays that ListenBrainz has of you.",
        "music",
        "is_pulled",
        "listenbrainz",
        fields=(Field("user", "User name at ListenBrainz"),),
    ),
    Kind(
        "lastfm",
        "Last.fm",
        "The plays that Last.fm has of you.",
        "music",
        "is_pulled",
        "lastfm",
        fields=(
            Field("user", "User name at Last.fm"),
            Field(
                "key",
                "API key",
                "Your own key of the interface of Last.fm.",
                is_secret=True,
                link="https://www.last.fm/api/account/create",
            ),
        ),
    ),
)

KINDS: Final[Mapping[str, Kind]] = {kind.name: kind for kind in _KINDS}
"""All kinds by name, in the order in which pages show them."""
RECEIVERS: Final = tuple(kind.name for kind in _KINDS if kind.way == "sends")
"""The kinds that an operator can switch on with SVC_RECEIVERS."""


@dataclass(frozen=True)
class Problem:
    """Why nothing comes from a connection, in two sentences."""

    what: str
    what_to_do: str


PROBLEMS: Final[Mapping[str, Problem]] = {
    "key_refused": Problem(
        "The service does not accept the key or the password.",
        "Check it, or make a new one there, and enter it on the page of this connection.",
    ),
    "access_denied": Problem(
        "The key or token does not permit reading.",
        "Make one there that may read what this connection brings, and enter it on its page.",
    ),
    "history_private": Problem(
        "The service keeps this history private.",
        "Make it public in the settings of the service. It is tried again.",
    ),
    "not_found": Problem(
        "There is nothing at this address, or nobody with this name.",
        "Copy it again from the service. Enter an address on the page of this connection; with another "
        "name, connect again.",
    ),
    "unreachable": Problem(
        "The server of the service could not be reached.",
        "Nothing needs to be done: it is tried again.",
    ),
    "timed_out": Problem(
        "The server of the service took too long to answer.",
        "Nothing needs to be done: it is tried again.",
    ),
    "server_error": Problem(
        "The server of the service answered with an error of its own.",
        "Nothing needs to be done: it is tried again.",
    ),
    "rate_limited": Problem(
        "The service has had too many requests.",
        "Nothing needs to be done: it is tried again when the service allows it.",
    ),
    "address_forbidden": Problem(
        "The address leads into a private network, which this server does not enter.",
        "Use a public address, or ask the operator to allow the network.",
    ),
    "invalid_address": Problem(
        "The address is not valid.",
        "Copy it again from the service, and connect again.",
    ),
    "invalid_header": Problem(
        "The key, the password or the name has a character that cannot be sent.",
        "Connect again, and copy it without spaces or line breaks.",
    ),
    "malformed_answer": Problem(
        "The answer of the service broke off, or is no answer of a web server.",
        "Nothing needs to be done: it is tried again.",
    ),
    "not_https": Problem(
        "The address, or one to which it leads, does not begin with https://.",
        "Use an address that does.",
    ),
    "tls_failed": Problem(
        "The certificate of the server is not valid.",
        "Tell the owner of the server.",
    ),
    "too_many_redirects": Problem(
        "The address leads from one address to the next without an end.",
        "Copy it again from the service, and connect again.",
    ),
    "too_large": Problem(
        "The answer of the service is too large.",
        "Choose a smaller calendar, or bring its file instead.",
    ),
    "wrong_type": Problem(
        "The answer is not what this connection reads.",
        "Copy the address again from the service, and connect again.",
    ),
    "not_a_calendar": Problem(
        "There is no calendar at this address.",
        "Copy the address again, which may be that of a page and not of the calendar, and enter it on the "
        "page of this connection.",
    ),
    "incomplete": Problem(
        "The calendar breaks off in the middle.",
        "Nothing needs to be done: it is tried again.",
    ),
    "no_calendar": Problem(
        "The server has no calendar with events for this user name.",
        "Enter the address of one calendar, or make a calendar there.",
    ),
    "other_server": Problem(
        "The server leads to a host of another name, which does not get the password.",
        "Connect again with the address of that host.",
    ),
    "unreadable": Problem(
        "The answer of the service could not be understood.",
        "It is tried again. If this goes on, tell the operator.",
    ),
    "secret_unreadable": Problem(
        "What you entered for this service cannot be opened any more.",
        "Enter it again on the page of this connection.",
    ),
    "failed": Problem(
        "An error happened here.",
        "It is tried again. If this goes on, tell the operator.",
    ),
    "encrypted_messages": Problem(
        "The application sends encrypted messages, which nobody here can read.",
        "Switch its encryption off: with https, the connection itself is encrypted.",
    ),
}
"""What pages say about each code of a problem."""
