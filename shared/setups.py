"""What a person enters in an application so that it sends its data to a receiver.

One function for each kind of connection that receives. Addresses and names are those of the receivers
(``resourceserver/integrations/receivers``). An application that opens a link of its own takes address and key
from it in one tap; the same link as a QR code sets up a phone from another screen.
"""

import base64
import json
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode, urlsplit


class Setup(NamedTuple):
    """How one application is set up."""

    steps: tuple[str, ...]
    """What to do by hand, in order, a sentence or two each."""
    texts: tuple[tuple[str, str], ...]
    """What to copy, each text with the label of its field."""
    link: str | None = None
    """An address that opens the application with everything filled in."""
    qr: str | None = None
    """What a QR code for the phone says."""
    warnings: tuple[str, ...] = ()
    """What to know before, a sentence or two each, such as where the key can be read."""


def setup(kind: str, base_url: str, key: str) -> Setup:
    """Return how the application of ``kind`` is set up; ``base_url`` is that of the resource server.

    Raises KeyError for a kind that does not receive.
    """
    how = _SETUPS[kind](base_url.rstrip("/"), key)
    if kind in _ON_PHONES and urlsplit(base_url).hostname in ("localhost", "127.0.0.1", "::1"):
        return how._replace(warnings=(_OUT_OF_REACH, *how.warnings))
    return how


def _wakatime(base_url: str, key: str) -> Setup:
    address = f"{base_url}/api/compat/wakatime/v1"
    return Setup(
        steps=(
            "Install the WakaTime plug-in of your editor.",
            "Open the file .wakatime.cfg in your home folder, or create it, and put these lines in it.",
            "Restart the editor. A plug-in that asks for an API key takes the one below.",
        ),
        texts=(
            ("~/.wakatime.cfg", f"[settings]\napi_url = {address}\napi_key = {key}\n"),
            ("API address", address),
            ("API key", key),
        ),
        warnings=(
            "The older command line in Python (version 13 and before) sends to this address, but its "
            "option --today ignores api_url: it asks wakatime.com, and sends this key there. Use "
            "wakatime-cli for totals in an editor.",
        ),
    )


def _listenbrainz(base_url: str, key: str) -> Setup:
    return Setup(
        steps=(
            "Open the scrobbling settings of your music player or scrobbler, and choose ListenBrainz.",
            "Enter the server address (some applications call it API URL or custom instance) and the "
            "user token.",
            "If the application asks for the whole address of the submission, enter that one instead.",
        ),
        texts=(
            ("Server address", base_url),
            ("User token", key),
            ("Address of the submission", f"{base_url}/1/submit-listens"),
        ),
    )


def _owntracks(base_url: str, key: str) -> Setup:
    address = f"{base_url}/receive/owntracks"
    # Mode 3 is HTTP. Names that are left out keep the values that the application has.
    configuration = {
        "_type": "configuration",
        "mode": 3,
        "url": address,
        "auth": True,
        "username": "svc",
        "password": key,
    }
    encoded = base64.b64encode(json.dumps(configuration).encode()).decode()
    link = f"owntracks:///config?inline={quote(encoded, safe='')}"
    return Setup(
        steps=(
            "Install OwnTracks on the phone and allow it to use the location at all times.",
            "Enter address, user name and password: Preferences, Connection, mode HTTP. Leave the "
            "encryption key empty.",
        ),
        texts=(("Address", address), ("User name", "svc"), ("Password", key)),
        link=link,
        qr=link,
        warnings=(
            "With an encryption key set in OwnTracks, this server cannot read the messages.",
        ),
    )


def _overland(base_url: str, key: str) -> Setup:
    address = f"{base_url}/receive/overland"
    query = urlencode({"url": address, "token": key, "device_id": "phone"}, quote_via=quote)
    link = f"overland://setup?{query}"
    return Setup(
        steps=(
            "Install Overland on the phone and allow it to use the location at all times.",
            "Enter address and access token: Settings, Receiver Endpoint.",
            "Switch tracking on.",
        ),
        texts=(("Receiver endpoint", address), ("Access token", key), ("Device ID", "phone")),
        link=link,
        qr=link,
    )


def _osmand(base_url: str, key: str) -> Setup:
    address = f"{base_url}/receive/osmand/{key}"
    # GPSLogger replaces names after a percent sign, OsmAnd numbers in braces. Both mean metres per second.
    gpslogger = (
        "lat=%LAT&lon=%LON&timestamp=%TIMESTAMP&accuracy_m=%ACC&altitude_m=%ALT"
        "&speed_mps=%SPD&course_deg=%DIR&battery_percent=%BATT&device=GPSLogger"
    )
    osmand = (
        "lat={0}&lon={1}&timestamp={2}&accuracy_m={3}&altitude_m={4}"
        "&speed_mps={5}&course_deg={6}&device=OsmAnd"
    )
    return Setup(
        steps=(
            "GPSLogger: Logging details, Log to custom URL. Paste its address, and choose the method POST "
            "or GET.",
            "OsmAnd: the plug-in Trip recording, Online tracking, Web address. Paste its address.",
            "Traccar Client: Settings, Server URL. Paste its address.",
        ),
        texts=(
            ("Address for GPSLogger", f"{address}?{gpslogger}"),
            ("Address for OsmAnd", f"{address}?{osmand}"),
            ("Address for Traccar Client", address),
        ),
        warnings=(
            "These applications send nothing but an address, so the key is part of it. Proxies and "
            "the applications themselves may write addresses to their logs.",
        ),
    )


def _health(base_url: str, key: str) -> Setup:
    return Setup(
        steps=(
            "Install Life Dashboard Companion, Health Auto Export or Health Connect Webhook on the phone.",
            "Add a webhook (Health Auto Export: an automation of the type REST API, format JSON) with "
            "this address.",
            "Add this header to its requests.",
        ),
        texts=(
            ("Address", f"{base_url}/receive/health"),
            ("Name of the header", "Authorization"),
            ("Value of the header", f"Bearer {key}"),
        ),
    )


_ON_PHONES: Final = ("owntracks", "overland", "osmand", "health")
_OUT_OF_REACH: Final = (
    "A phone cannot reach this server yet: the address names this computer alone, and on a phone it means "
    "the phone itself. The operator first gives the server a name that phones reach, with https, in "
    "SVC_BASE_URL."
)

_SETUPS: Final[dict[str, Callable[[str, str], Setup]]] = {
    "wakatime": _wakatime,
    "listenbrainz": _listenbrainz,
    "owntracks": _owntracks,
    "overland": _overland,
    "osmand": _osmand,
    "health": _health,
}
