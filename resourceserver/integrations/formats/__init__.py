"""The formats of files that people can bring: one module each, which holds one or more declarations.

Reading is pure: bytes in, records out. Nothing in this room knows of a database.
"""

from typing import Final

from resourceserver.integrations.format import Format
from resourceserver.integrations.formats import (
    apple_health,
    fit,
    fitbit,
    geojson,
    google_fit,
    google_location,
    gpx,
    icalendar,
    kml,
    lastfm,
    listenbrainz,
    oura,
    scrobbles,
    spotify,
    strava,
    swarm,
    tcx,
    wakatime,
    whoop,
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
)
"""All formats, the most widely used first."""
