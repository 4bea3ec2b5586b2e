"""The contents of the invented world: applications, projects, music, films, places, and texts.

Applications and sites have the names of real ones, so that the service knows their categories. Everything
else is invented.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

SOURCE: Final = "svc-demo/1.0"
"""The tracker's name and version."""
LAPTOP: Final = "work-laptop"
PHONE: Final = "phone"


@dataclass(frozen=True)
class App:
    """An application, or a site in the browser, and the usual length of its sessions."""

    name: str
    category: str | None
    """The category that the tracker sends; None where the service decides."""
    seconds: float
    """The median length of a session."""
    titles: tuple[str, ...]
    url: str | None = None
    """The address of a site, under which its pages lie; None for an application."""


EDITOR: Final = App("Code", "Development", 150, ())
TERMINAL: Final = App(
    "Terminal", "Development", 45, ("make test", "git log", "htop", "ssh tide-gauge")
)
CHAT: Final = App(
    "Slack",
    "Communication",
    35,
    ("#general - Lantern Works", "#tides - Lantern Works", "Bob - Lantern Works", "Threads"),
)
MAIL: Final = App(
    "Thunderbird",
    "Communication",
    60,
    ("Inbox", "Minutes of the harbour meeting", "Re: Gauge calibration", "Travel receipts"),
)
MEETING: Final = App("Zoom", "Communication", 900, ("Meeting",))
WRITING: Final = App(
    "LibreOffice Writer", "Writing", 180, ("Field notes.odt", "Proposal for the harbour.odt")
)
SHEET: Final = App("LibreOffice Calc", "Business", 90, ("Budget.ods", "Gauge readings.ods"))
DESIGN: Final = App("Inkscape", "Design", 120, ("lantern-logo.svg", "tide-chart.svg"))
DOCS: Final = App(
    "Firefox",
    "Reference",
    70,
    ("json - JSON encoder and decoder", "PostgreSQL: Window Functions", "Time zones, explained"),
    "https://docs.python.org/3/library/",
)
REVIEWS: Final = App(
    "Firefox",
    "Development",
    80,
    ("Pull request: Round tides half up", "Issues - lighthouse", "Actions - harbour"),
    "https://github.com/lantern-works/",
)
SEARCH: Final = App(
    "Firefox",
    None,
    25,
    ("tide table rounding", "postgres lateral join", "why is the sea salty"),
    "https://duckduckgo.com/",
)
NEWS: Final = App(
    "Firefox",
    "News",
    50,
    ("Ferry line to reopen in spring", "A quiet record for wind power", "Letters to the editor"),
    "https://news.ycombinator.com/",
)
SOCIAL: Final = App(
    "Firefox", "Social", 55, ("Home / Mastodon", "Notifications"), "https://mastodon.social/"
)
SHOP: Final = App(
    "Firefox", "Shopping", 60, ("Rain coats", "Second-hand lenses"), "https://www.etsy.com/"
)
VIDEO: Final = App(
    "Firefox",
    "Entertainment",
    420,
    ("How lighthouses are rebuilt", "A walk along the quay", "Sourdough in winter"),
    "https://www.youtube.com/",
)
GAME: Final = App("Steam", "Games", 1500, ("Harbour Tycoon", "The Lamp Keeper"))
FILES: Final = App("Files", "Utilities", 15, ("Downloads", "Pictures"))
MESSAGES: Final = App("Signal", "Communication", 30, ())
PHOTOS: Final = App("Camera", None, 20, ())
MAPS: Final = App("Maps", "Utilities", 60, ())
READING: Final = App("KOReader", "Reference", 600, ("The Keeper's Almanac", "Salt and Signal"))

WORK: Final[dict[App, float]] = {
    EDITOR: 30,
    TERMINAL: 18,
    DOCS: 9,
    REVIEWS: 9,
    CHAT: 17,
    MAIL: 7,
    SEARCH: 6,
    WRITING: 4,
    SHEET: 2,
    DESIGN: 1,
    NEWS: 2,
    SOCIAL: 2,
    FILES: 2,
}
"""The applications of work, with their weights."""
EVENING: Final[dict[App, float]] = {
    VIDEO: 6,
    EDITOR: 3,
    TERMINAL: 1,
    NEWS: 4,
    SOCIAL: 4,
    SHOP: 2,
    SEARCH: 3,
    GAME: 1,
    READING: 2,
}
POCKET: Final[dict[App, float]] = {MESSAGES: 6, SOCIAL: 3, MAPS: 1, PHOTOS: 1, NEWS: 2}
"""The applications of the phone, with their weights; the phone is used independently of the laptop."""


@dataclass(frozen=True)
class Project:
    """A software project, and the part of the whole time in which the person works on it."""

    name: str
    language: str
    files: tuple[str, ...]
    begins: float
    ends: float
    """As shares of the whole time, from 0 to 1."""
    is_work: bool = True


PROJECTS: Final = (
    Project(
        "lighthouse",
        "Python",
        ("lamp/beam.py", "lamp/rotation.py", "tests/test_beam.py", "README.md"),
        0.0,
        0.6,
    ),
    Project(
        "harbour",
        "TypeScript",
        ("src/berths.ts", "src/ferries.ts", "src/tides.test.ts", "docs/plan.md"),
        0.45,
        1.0,
    ),
    Project("tidepool", "Rust", ("src/main.rs", "src/anemone.rs"), 0.0, 1.0, is_work=False),
)
"""The first one ends after the second has begun; the third is a hobby."""

CHANGES: Final = (
    "Round tides half up",
    "Turn the lamp off by day",
    "Count ferries that never left",
    "Say why a berth is refused",
    "Move the gauge to UTC",
    "Test the beam at the horizon",
    "Remove what nobody calls",
    "Explain the almanac",
    "Make room for longer ships",
    "Speed up the harvest of readings",
)

MEETINGS: Final = ("Gauge review", "Harbour walk-through", "Interview", "Retrospective", "Budget")

ARTISTS: Final[dict[str, tuple[str, ...]]] = {
    "The Paper Boats": ("Folded Twice", "Out Past the Pier", "Ink and Water", "Regatta"),
    "Marrow & Pine": ("Kindling", "North Slope", "The Long Burn", "Ash Wednesday Market"),
    "Okonoke": ("Glass Tram", "Rain Check", "Terminal Garden", "Soft Machine Room", "Pale Signal"),
    "Lumen Choir": ("First Light", "Vespers for a Bulb", "Filament"),
    "DJ Estuary": ("Brackish", "Silt", "Neap Tide", "Mudflat Disco"),
    "Hanne Vold": ("Kystlinje", "Under the Eaves", "Salt in the Piano"),
    "Quiet Freight": ("Sidings", "Night Shunt", "Couplings", "Yard Light"),
}

SHOWS: Final[dict[str, tuple[str, ...]]] = {
    "The Lamp Keepers": ("drama", "mystery"),
    "Ferry Tales": ("comedy",),
    "Deep Inventory": ("documentary", "science"),
}
MOVIES: Final[dict[str, tuple[str, ...]]] = {
    "A Letter from the Quay": ("drama",),
    "Two Left Oars": ("comedy", "romance"),
    "Signal Fire": ("thriller",),
    "The Cartographer's Daughter": ("drama", "history"),
    "Home Movies": (),
}

NOTES: Final = (
    (
        "Standup notes",
        (
            "I finished the rounding yesterday.",
            "Today I look at the ferries.",
            "Nothing blocks me.",
        ),
    ),
    (
        "An idea on the way home",
        ("The gauge could say how sure it is.", "Ask Bob whether that is worth it."),
    ),
    (
        "Shopping and other lists",
        ("Bread, lemons, batteries.", "Call about the rain coat."),
    ),
)


class Spot(NamedTuple):
    """A place, and its distance north and east of the middle of town, in degrees."""

    name: str
    category: str
    north: float
    east: float


HOME: Final = Spot("Home", "Home", 0.012, -0.021)
OFFICE: Final = Spot("Lantern Works", "Office", -0.004, 0.018)
CAFES: Final = (
    Spot("Café Anker", "Café", 0.003, 0.004),
    Spot("The Wet Dog", "Bar", -0.002, -0.006),
    Spot("Noodle Pier", "Restaurant", 0.006, 0.009),
    Spot("Saturday market", "Market", 0.001, -0.001),
)


class Town(NamedTuple):
    """A town where the person lives or travels to."""

    name: str
    country_code: str
    zone: str
    latitude: float
    longitude: float


AMSTERDAM: Final = Town("Amsterdam", "NL", "Europe/Amsterdam", 52.3728, 4.8936)
LISBON: Final = Town("Lisbon", "PT", "Europe/Lisbon", 38.7139, -9.1394)
