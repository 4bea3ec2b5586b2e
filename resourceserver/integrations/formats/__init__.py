"""The formats of files that people can bring: one module each, which holds one or more declarations.

Reading is pure: bytes in, records out. Nothing in this room knows of a database.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from resourceserver.integrations.format import Format
from resourceserver.integrations.formats import (
    activitywatch,
    apple_health,
    fit,
    fitbit,
    garmin,
    geojson,
    git,
    google_fit,
    google_location,
    gpx,
    icalendar,
    kml,
    lastfm,
    listenbrainz,
    oura,
    own,
    scrobbles,
    spotify,
    strava,
    swarm,
    tcx,
    timesheets,
    transcripts,
    wakatime,
    watching,
    whoop,
    withings,
)

FORMATS: Final[tuple[Format, ...]] = (
    google_location.RECORDS,
    google_location.SEMANTIC,
    google_location.TIMELINE_ANDROID,
    google_location.TIMELINE_IOS,
    google_location.TIMELINE_EDITS,
    apple_health.APPLE_HEALTH,
    spotify.EXTENDED,
    spotify.ACCOUNT_DATA,
    fitbit.MEASURES,
    fitbit.SLEEPS,
    fitbit.WEIGHTS,
    fitbit.GOOGLE_HEALTH,
    google_fit.GOOGLE_FIT,
    lastfm.CSV,
    lastfm.TABLE,
    lastfm.PAGES,
    listenbrainz.LINES,
    listenbrainz.ARRAY,
    scrobbles.MALOJA,
    scrobbles.KOITO,
    scrobbles.LIBREFM_CSV,
    scrobbles.LIBREFM_TSV,
    scrobbles.PANO,
    scrobbles.ROCKBOX,
    swarm.SWARM,
    watching.NETFLIX,
    watching.NETFLIX_DAYS,
    watching.TRAKT,
    watching.LETTERBOXD,
    watching.IMDB,
    wakatime.HEARTBEATS,
    wakatime.DAILY_TOTALS,
    icalendar.ICALENDAR,
    gpx.GPX,
    fit.FIT,
    tcx.TCX,
    strava.ACTIVITIES,
    kml.KML,
    geojson.GEOJSON,
    geojson.OVERLAND,
    geojson.OWNTRACKS,
    whoop.CYCLES,
    whoop.SLEEPS,
    whoop.WORKOUTS,
    oura.OURA,
    garmin.SLEEPS,
    garmin.DAYS,
    withings.WEIGHTS,
    withings.PRESSURES,
    withings.SLEEPS,
    withings.HEART_RATES,
    withings.DAYS,
    activitywatch.ACTIVITYWATCH,
    timesheets.RESCUETIME,
    timesheets.TOGGL,
    timesheets.MANICTIME,
    timesheets.ATIMELOGGER,
    git.GIT_LOG,
    transcripts.VTT,
    transcripts.SRT,
    transcripts.GRANOLA,
    own.OWN_JSON,
    own.OWN_NDJSON,
)
"""All formats, the most widely used first."""


def named(name: str, formats: Sequence[Format] = FORMATS) -> Format | None:
    """Return the format of this name, or None.

    After a colon, the name may have that of one person in a file of several: ``netflix:Alice``.
    """
    first, colon, person = name.partition(":")
    found = next((each for each in formats if each.name == first), None)
    if found is None or not colon:
        return found
    if found.read_one is None or not person:
        return None
    return replace(found, name=name, read=found.read_one(person))
