"""The pulls by the kind of their connections."""

from collections.abc import Mapping
from typing import Final

from resourceserver.integrations.pulls import calendar, github, gitlab, lastfm, listenbrainz
from resourceserver.integrations.pulls.pulling import Pull

PULLS: Final[Mapping[str, Pull]] = {
    "calendar": calendar.pull,
    "github": github.pull,
    "gitlab": gitlab.pull,
    "listenbrainz_user": listenbrainz.pull,
    "lastfm": lastfm.pull,
}
