"""Services whose files people can bring: what each file holds, and how to get it there.

Pages show these texts. The formats are those of ``resourceserver.integrations.formats``; a test holds that
each belongs to exactly one source, under the same title. The steps name menus and buttons as far as they
are known; only those of a source with ``is_tried`` were walked through.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class FileFormat:
    """A format of files, as people read about it."""

    name: str
    """Its name in receipts, such as ``spotify_extended``."""
    title: str
    is_proven: bool = False
    """Whether it was tested with files or a schema from outside this project."""


@dataclass(frozen=True)
class Source:
    """A service, an application or a device whose files can be brought."""

    key: str
    """Its name in addresses of the page, such as ``apple-health``."""
    title: str
    holds: str
    """What its files bring, as a sentence."""
    steps: tuple[str, ...]
    """What to press there, one sentence a step."""
    files: tuple[str, ...]
    """The names of the files to bring."""
    wait: str
    """How long the service takes, as a sentence."""
    formats: tuple[FileFormat, ...]
    command: str | None = None
    """A command for a terminal that makes the file."""
    note: str | None = None
    """What else a person should know."""
    is_tried: bool = False
    """Whether the steps were walked through; if not, pages say so."""


_TAKEOUT_WAIT: Final = "From a few minutes to a few days. Google sends an e-mail with a link."
_AT_ONCE: Final = "The file is there at once."

_GOOGLE_TIMELINE: Final = Source(
    key="google-timeline",
    title="Google Maps Timeline",
    holds="Places that you visited, and the points between them.",
    steps=(
        "On an Android phone: Settings, Location, Location services, Timeline, then Export Timeline data.",
        "On an iPhone: Google Maps, your picture, Settings, Location & privacy, then Export Timeline data.",
        "Save the file, and bring it from the phone itself or from your computer.",
    ),
    files=("Timeline.json", "location-history.json"),
    wait="The phone writes the file itself, within minutes.",
    formats=(
        FileFormat("google_timeline_android", "Google Maps Timeline, exported by an Android phone"),
        FileFormat("google_timeline_ios", "Google Maps Timeline, exported by an iPhone"),
    ),
    note="Since 2024 Google keeps the Timeline on the phone. Earlier years may be in Takeout: bring both.",
)
_GOOGLE_LOCATION: Final = Source(
    key="google-takeout-location",
    title="Google location history, from Takeout",
    holds="Points and visits from the years before the Timeline moved to the phone.",
    steps=(
        "Open takeout.google.com and press Deselect all.",
        "Tick Timeline, which was once called Location History.",
        "Press Next step, then Create export.",
        "Download the archive from the link in the e-mail.",
    ),
    files=("takeout-….zip",),
    wait=_TAKEOUT_WAIT,
    formats=(
        FileFormat("google_records", "Google Takeout, location records", is_proven=True),
        FileFormat("google_semantic", "Google Takeout, semantic location history", is_proven=True),
        FileFormat("google_timeline_edits", "Google Takeout, timeline edits", is_proven=True),
    ),
    note="Bring the archive as it is. If Google split it into several, bring each of them.",
)
_SWARM: Final = Source(
    key="swarm",
    title="Foursquare Swarm",
    holds="Your check-ins, with the places.",
    steps=(
        "Open app.foursquare.com/settings/privacy in a browser and sign in.",
        "Press Initiate Data Download Request.",
        "Download the archive from the link in the e-mail.",
    ),
    files=("data-export-….zip",),
    wait="Up to 72 hours. Foursquare sends an e-mail.",
    formats=(FileFormat("swarm", "Foursquare Swarm check-ins"),),
)
_OWNTRACKS: Final = Source(
    key="owntracks",
    title="OwnTracks",
    holds="The points that your phone sent to your own OwnTracks Recorder.",
    steps=("On the machine of the Recorder, pack the folder rec of its storage into a zip file.",),
    files=("2024-05.rec and the like, in a zip file",),
    wait=_AT_ONCE,
    formats=(FileFormat("owntracks", "OwnTracks Recorder, .rec files"),),
)
_OVERLAND: Final = Source(
    key="overland",
    title="Overland",
    holds="The points that the Overland app sent to a server of yours.",
    steps=(
        "Overland itself keeps no history: take the requests that your server stored, as JSON files.",
    ),
    files=("JSON with a list called locations",),
    wait=_AT_ONCE,
    formats=(FileFormat("overland", "Overland, locations"),),
)
_TRACKS: Final = Source(
    key="tracks",
    title="Tracks of other apps and devices",
    holds="Points with their times, from navigation devices, hiking apps and map programs.",
    steps=(
        "Look for Export or Share in the app or on the device, and choose GPX if it is offered.",
    ),
    files=("….gpx", "….kml", "….geojson"),
    wait=_AT_ONCE,
    formats=(
        FileFormat("gpx", "GPX tracks", is_proven=True),
        FileFormat("kml", "KML tracks and places", is_proven=True),
        FileFormat("geojson", "GeoJSON points and lines"),
    ),
    note="Only points with a time count. Planned routes and saved places are left out.",
)
_APPLE_HEALTH: Final = Source(
    key="apple-health",
    title="Apple Health",
    holds="Steps, heart rate, sleep, weight and whatever else your iPhone and Watch recorded.",
    steps=(
        "On the iPhone, open Health and press your picture or initials at the top.",
        "Scroll down to Export All Health Data, and confirm with Export.",
        "Save the file, and bring it from the phone itself or from your computer.",
    ),
    files=("export.zip",),
    wait="Some minutes on the phone; longer after many years.",
    formats=(FileFormat("apple_health", "Apple Health export"),),
)
_FITBIT: Final = Source(
    key="fitbit",
    title="Fitbit",
    holds="Steps, heart rate, sleep, weight and other measures.",
    steps=(
        "Open takeout.google.com and press Deselect all.",
        "Tick Fitbit, press Next step, then Create export.",
        "Download the archive from the link in the e-mail.",
    ),
    files=("takeout-….zip",),
    wait=_TAKEOUT_WAIT,
    formats=(
        FileFormat("fitbit", "Fitbit export, measures"),
        FileFormat("fitbit_sleep", "Fitbit export, sleep"),
        FileFormat("fitbit_weight", "Fitbit export, weight"),
        FileFormat("google_health", "Google Health or Fitbit in Google Takeout"),
    ),
    note="An archive that fitbit.com made before accounts moved to Google can be brought too.",
)
_GOOGLE_FIT: Final = Source(
    key="google-fit",
    title="Google Fit",
    holds="Steps, distance, heart rate, weight and other measures.",
    steps=(
        "Open takeout.google.com and press Deselect all.",
        "Tick Fit, press Next step, then Create export.",
        "Download the archive from the link in the e-mail.",
    ),
    files=("takeout-….zip",),
    wait=_TAKEOUT_WAIT,
    formats=(FileFormat("google_fit", "Google Fit in Google Takeout"),),
)
_GARMIN: Final = Source(
    key="garmin",
    title="Garmin",
    holds="Sleep and the totals of days; workouts too, where the archive has their files.",
    steps=(
        "Open garmin.com/account/datamanagement and sign in.",
        "Choose Export Your Data, then Request Data Export.",
        "Download the archive from the link in the e-mail.",
    ),
    files=("a zip file with a folder DI_CONNECT",),
    wait="Often two days, at most 30. Garmin sends an e-mail.",
    formats=(
        FileFormat("garmin_sleeps", "Garmin, account export: sleeps"),
        FileFormat("garmin_days", "Garmin, account export: days"),
    ),
)
_STRAVA: Final = Source(
    key="strava",
    title="Strava",
    holds="All your activities, with their tracks and heart rates.",
    steps=(
        "Open strava.com in a browser: Settings, My Account.",
        "Under Download or Delete Your Account, press Get Started.",
        "At step 2, Download Request, press Request Your Archive. This deletes nothing.",
        "Download the archive from the link in the e-mail.",
    ),
    files=("export_….zip",),
    wait="Some hours. Strava sends an e-mail.",
    formats=(FileFormat("strava_activities", "Strava, bulk export: activities.csv"),),
    note="The list of activities must be in English: set the language of Strava to English first.",
)
_WORKOUTS: Final = Source(
    key="workouts",
    title="Workouts of watches and cycling computers",
    holds="Tracks, heart rates and totals of single workouts.",
    steps=(
        "Connect the device to a computer and copy the files of its folder Activity.",
        "Or open a workout in the app of its maker, and look for Export or Download original.",
    ),
    files=("….fit", "….tcx"),
    wait=_AT_ONCE,
    formats=(
        FileFormat("fit", "FIT workouts", is_proven=True),
        FileFormat("tcx", "TCX workouts", is_proven=True),
    ),
)
_WHOOP: Final = Source(
    key="whoop",
    title="WHOOP",
    holds="Sleep, recovery and workouts.",
    steps=(
        "In the WHOOP app, open the menu at the bottom right and press Export WHOOP Data.",
        "Check the e-mail address and press Create Export.",
        "Download the archive from the e-mail.",
    ),
    files=("a zip file with physiological_cycles.csv",),
    wait="Up to 24 hours. WHOOP sends an e-mail.",
    formats=(
        FileFormat("whoop_cycles", "WHOOP, physiological cycles"),
        FileFormat("whoop_sleeps", "WHOOP, sleeps"),
        FileFormat("whoop_workouts", "WHOOP, workouts"),
    ),
    note="The columns must be in English: set the language of the app to English first.",
)
_OURA: Final = Source(
    key="oura",
    title="Oura",
    holds="Sleep, activity and heart rate.",
    steps=(
        "Open membership.ouraring.com, sign in, and look for Export data.",
        "Choose JSON if it is offered.",
    ),
    files=("JSON with lists called sleep, daily_activity or heartrate",),
    wait="Oura says when the file is ready.",
    formats=(FileFormat("oura", "Oura, sleep, activity and heart rate as JSON"),),
    note="What is read is the JSON of Oura's interface for programs. Other files are not recognised.",
)
_WITHINGS: Final = Source(
    key="withings",
    title="Withings",
    holds="Weight, blood pressure, sleep, heart rate and the totals of days.",
    steps=(
        "In the Withings app, open your profile, choose yourself, and look for Download your data.",
        "Download the archive from the link in the e-mail.",
    ),
    files=("a zip file with weight.csv, sleep.csv and others",),
    wait="Withings sends an e-mail.",
    formats=(
        FileFormat("withings_weights", "Withings, weights"),
        FileFormat("withings_blood_pressures", "Withings, blood pressures"),
        FileFormat("withings_sleeps", "Withings, sleeps"),
        FileFormat("withings_heart_rates", "Withings, heart rates"),
        FileFormat("withings_days", "Withings, totals of days"),
    ),
    note="Keep the names of the files: some tables say only in their name what they hold.",
)
_SPOTIFY: Final = Source(
    key="spotify",
    title="Spotify",
    holds="Every track that you played.",
    steps=(
        "Open spotify.com/account/privacy in a browser and sign in.",
        "Tick Extended streaming history, and press Request data.",
        "Confirm the request in the e-mail that follows.",
        "Download the archive from the link in the next e-mail.",
    ),
    files=("my_spotify_data.zip",),
    wait="The extended history takes up to 30 days, the account data up to 5.",
    formats=(
        FileFormat("spotify_extended", "Spotify, extended streaming history"),
        FileFormat("spotify_account_data", "Spotify, account data"),
    ),
    note="The account data has only the last year and says less of each play. If you bring both, bring the "
    "extended history first. Podcasts and audiobooks are counted and not kept.",
)
_LASTFM: Final = Source(
    key="lastfm",
    title="Last.fm",
    holds="Your scrobbles.",
    steps=(
        "Last.fm has no export of its own; two pages of other people make one from your user name.",
        "Open benjaminbenben.com/lastfm-to-csv, or lastfm.ghan.nl/export.",
        "Type your user name, wait until all pages are read, and save the file.",
    ),
    files=("your-name.csv", "recenttracks-….csv", "recenttracks-….json"),
    wait="Some minutes; longer with many scrobbles.",
    formats=(
        FileFormat("lastfm_csv", "Last.fm to CSV"),
        FileFormat("lastfm_table", "Last.fm data export, CSV"),
        FileFormat("lastfm_pages", "Last.fm data export, JSON"),
    ),
)
_TIDAL: Final = Source(
    key="tidal",
    title="TIDAL",
    holds="The tracks that you played, with their times to the minute.",
    steps=(
        "Open account.tidal.com in a browser, sign in, and look for a copy of your data.",
        "If there is none, ask TIDAL's support for the data that it has about you.",
        "Bring the archive that comes, or the file streaming.csv in it.",
    ),
    files=("streaming.csv",),
    wait="TIDAL says when the file is ready.",
    formats=(FileFormat("tidal", "TIDAL, streaming history"),),
)
_LISTENBRAINZ: Final = Source(
    key="listenbrainz",
    title="ListenBrainz",
    holds="Your listens.",
    steps=(
        "Open listenbrainz.org, Settings, Export data.",
        "Press Export, and download the archive when it is ready.",
    ),
    files=("listenbrainz_….zip",),
    wait="From minutes to hours.",
    formats=(
        FileFormat("listenbrainz", "ListenBrainz export"),
        FileFormat("listenbrainz_array", "ListenBrainz export of before 2024"),
    ),
)
_MALOJA: Final = Source(
    key="maloja",
    title="Maloja",
    holds="Your scrobbles.",
    steps=("On the page of your own Maloja server, open the settings and export the data.",),
    files=("maloja_export….json",),
    wait=_AT_ONCE,
    formats=(FileFormat("maloja", "Maloja export"),),
)
_KOITO: Final = Source(
    key="koito",
    title="Koito",
    holds="Your listens.",
    steps=("On the page of your own Koito server, open the settings and export the data.",),
    files=("koito_export….json",),
    wait=_AT_ONCE,
    formats=(FileFormat("koito", "Koito export"),),
)
_LIBREFM: Final = Source(
    key="librefm",
    title="Libre.fm",
    holds="Your scrobbles; also other tables with a time, an artist and a track in each line.",
    steps=("Use the program lastexport.py with --server=libre.fm, or another exporter.",),
    files=("exported_tracks.txt", "….csv"),
    wait="Some minutes; longer with many scrobbles.",
    formats=(
        FileFormat("librefm_csv", "Libre.fm export, or another table of listens"),
        FileFormat("librefm_tsv", "Libre.fm export, as lastexport writes it"),
    ),
)
_PANO: Final = Source(
    key="pano-scrobbler",
    title="Pano Scrobbler",
    holds="The listens that the app kept in a file.",
    steps=("In the app, choose scrobbling to a file, and bring this file.",),
    files=("….jsonl",),
    wait=_AT_ONCE,
    formats=(FileFormat("pano_scrobbler", "Pano Scrobbler log"),),
)
_ROCKBOX: Final = Source(
    key="rockbox",
    title="Rockbox and other players",
    holds="What the player played.",
    steps=("Connect the player to a computer and copy the log from its root folder.",),
    files=(".scrobbler.log",),
    wait=_AT_ONCE,
    formats=(FileFormat("rockbox", "Scrobbler log of Rockbox and other players"),),
    note="Computers may hide files whose names begin with a dot.",
)
PROFILED: Final = "netflix"
"""The format whose files have what several people did, each in a profile with a name."""

_NETFLIX: Final = Source(
    key="netflix",
    title="Netflix",
    holds="What you watched.",
    steps=(
        "Open netflix.com/account/getmyinfo in a browser and request a copy of your information.",
        "Confirm the request in the e-mail, and download the archive when the next e-mail comes.",
        "Or, for one profile: netflix.com/viewingactivity, then Download all at the end of the list.",
    ),
    files=("netflix-report.zip", "NetflixViewingHistory.csv"),
    wait="The archive often takes a day, at most 30 days. The list of one profile is there at once.",
    formats=(
        FileFormat("netflix", "Netflix, viewing activity of all data"),
        FileFormat("netflix_days", "Netflix, viewing activity of one profile"),
    ),
    note="Bring one of the two: nothing in them says which lines are the same. The archive has times and "
    "durations and the plays of all profiles; the list has only days.",
)
_TRAKT: Final = Source(
    key="trakt",
    title="Trakt",
    holds="The films and episodes that you watched.",
    steps=("Open trakt.tv, Settings, Data, and export your data.",),
    files=("a zip file, or JSON of your history",),
    wait="Trakt says when the file is ready.",
    formats=(FileFormat("trakt", "Trakt history"),),
)
_LETTERBOXD: Final = Source(
    key="letterboxd",
    title="Letterboxd",
    holds="The films of your diary, each at noon of its day.",
    steps=("Open letterboxd.com, Settings, Data, then Export your data.",),
    files=("letterboxd-….zip",),
    wait=_AT_ONCE,
    formats=(FileFormat("letterboxd", "Letterboxd diary"),),
)
_IMDB: Final = Source(
    key="imdb",
    title="IMDb",
    holds="The titles that you rated, each on the day of its rating.",
    steps=("Open imdb.com, Your ratings, then Export.",),
    files=("ratings.csv",),
    wait="Some minutes.",
    formats=(FileFormat("imdb", "IMDb ratings"),),
)
_WAKATIME: Final = Source(
    key="wakatime",
    title="WakaTime and Wakapi",
    holds="Your coding time by project and language.",
    steps=(
        "Open wakatime.com/settings/account and look for Export my code stats.",
        "Choose heartbeats, and download the file from the e-mail.",
    ),
    files=("wakatime-….json",),
    wait="From minutes to hours.",
    formats=(
        FileFormat("wakatime", "WakaTime, data dump of heartbeats"),
        FileFormat("wakatime_daily", "WakaTime, data dump of daily totals"),
    ),
    note="Daily totals say nothing of when, so nothing in such a file can be kept.",
)
_ACTIVITYWATCH: Final = Source(
    key="activitywatch",
    title="ActivityWatch",
    holds="Applications, sites and editors that you used.",
    steps=(
        "On the computer with ActivityWatch, open localhost:5600 in a browser.",
        "Choose Raw Data, then Export all buckets as JSON.",
    ),
    files=("aw-buckets-export.json",),
    wait=_AT_ONCE,
    formats=(FileFormat("activitywatch", "ActivityWatch, export of buckets", is_proven=True),),
    note="For a computer that you go on using, the bridge sends what is new every minute.",
)
_RESCUETIME: Final = Source(
    key="rescuetime",
    title="RescueTime",
    holds="Time by application and hour.",
    steps=("Open rescuetime.com, Reports, and download the activities by hour as CSV.",),
    files=("….csv with Date, Time Spent (seconds) and Activity",),
    wait=_AT_ONCE,
    formats=(FileFormat("rescuetime", "RescueTime, activities by hour"),),
)
_TOGGL: Final = Source(
    key="toggl",
    title="Toggl Track",
    holds="The times that you tracked by hand.",
    steps=("Open track.toggl.com, Reports, Detailed, choose the years, then Export as CSV.",),
    files=("Toggl_time_entries_….csv",),
    wait=_AT_ONCE,
    formats=(FileFormat("toggl", "Toggl Track, detailed report"),),
)
_MANICTIME: Final = Source(
    key="manictime",
    title="ManicTime",
    holds="Applications that you used.",
    steps=("In ManicTime, export the timeline Applications as CSV.",),
    files=("….csv with Name, Start, End, Duration and Process",),
    wait=_AT_ONCE,
    formats=(FileFormat("manictime", "ManicTime, applications"),),
)
_ATIMELOGGER: Final = Source(
    key="atimelogger",
    title="aTimeLogger",
    holds="The times that you tracked by hand.",
    steps=("In the app, open Reports, choose the time, and export as CSV.",),
    files=("….csv with Activity type, Duration, From and To",),
    wait=_AT_ONCE,
    formats=(FileFormat("atimelogger", "aTimeLogger, report"),),
)
_GIT: Final = Source(
    key="git",
    title="Git repositories on your machine",
    holds="Your commits, with the number of lines that each added and removed.",
    steps=(
        "Run this command in each repository, with your name or e-mail address for YOU and the name of the "
        "repository for NAME.",
    ),
    files=("NAME.log, named like the repository",),
    command="git -c core.quotePath=true -c log.showSignature=false log --all --numstat --no-renames "
    '--no-color --format="%x1e%H%x09%aI%x09%s" --author=YOU > ../NAME.log',
    wait=_AT_ONCE,
    formats=(FileFormat("git_log", "Output of git log", is_proven=True),),
    is_tried=True,
)
_CALENDARS: Final = Source(
    key="calendars",
    title="Calendars of Google, Apple, Outlook and others",
    holds="Your appointments.",
    steps=(
        "Google Calendar in a browser: Settings, Import & export, then Export.",
        "Calendar on a Mac: choose a calendar, then File, Export, Export.",
        "Other programs: look for an export as iCalendar.",
    ),
    files=("….ics", "….ical.zip"),
    wait=_AT_ONCE,
    formats=(FileFormat("icalendar", "iCalendar file", is_proven=True),),
)
_GRANOLA: Final = Source(
    key="granola",
    title="Granola",
    holds="Your meetings, with their transcripts.",
    steps=(
        "On a Mac, open Library/Application Support/Granola in your home folder, and copy the cache file.",
    ),
    files=("cache-v3.json",),
    wait=_AT_ONCE,
    formats=(FileFormat("granola", "Granola, cache of meetings"),),
)
_TRANSCRIPTS: Final = Source(
    key="transcripts",
    title="Transcripts of Zoom, Teams and others",
    holds="What was said in a recording, and by whom where the file says so.",
    steps=("Open the recording in its program, and download the transcript or the captions.",),
    files=("GMT20240501-090000_Recording.transcript.vtt and the like", "….srt"),
    wait=_AT_ONCE,
    formats=(
        FileFormat("vtt", "Transcript, WebVTT", is_proven=True),
        FileFormat("srt", "Transcript, SubRip", is_proven=True),
    ),
    note="The day and time of a recording are read from the name of its file, so keep a name that has them.",
)
_OWN: Final = Source(
    key="own",
    title="Another account of this service",
    holds="All records of the account; settings such as goals are not brought back.",
    steps=(
        "In the other account: Account, Download your data.",
        "Choose JSON or NDJSON, and download the file.",
    ),
    files=("activity….json", "activity….ndjson"),
    wait=_AT_ONCE,
    formats=(
        FileFormat("own_json", "Export of this service, JSON"),
        FileFormat("own_ndjson", "Export of this service, NDJSON"),
    ),
    is_tried=True,
)

_SCREEN_TIME: Final = Source(
    key="screen-time",
    title="Screen time of Android",
    holds="For how many minutes of each day you used each application of your phone.",
    steps=(
        "Android has no export of its own; Life Dashboard Companion sends its screen time as messages.",
        "Let it send them here: Connections, Health from a phone.",
        "Or bring messages that you have kept, as files: one message, a list of them, or one message a line.",
    ),
    files=("JSON with a list called screen_time",),
    wait="The application sends the last seven days each time.",
    formats=(FileFormat("screen_time", "Life Dashboard Companion, screen time"),),
    note="A phone does not say when on a day an application was used, so these minutes stand beside your "
    "sessions: no timeline and no total contains them. The newest count of a day is kept.",
)

GROUPS: Final[Mapping[str, tuple[Source, ...]]] = {
    "Places": (_GOOGLE_TIMELINE, _GOOGLE_LOCATION, _SWARM, _TRACKS, _OWNTRACKS, _OVERLAND),
    "Health and sport": (
        *(_APPLE_HEALTH, _FITBIT, _GOOGLE_FIT, _GARMIN, _STRAVA, _WHOOP, _OURA, _WITHINGS),
        _WORKOUTS,
    ),
    "Music": (
        *(_SPOTIFY, _TIDAL, _LASTFM, _LISTENBRAINZ, _MALOJA, _KOITO, _LIBREFM, _PANO),
        _ROCKBOX,
    ),
    "Films and series": (_NETFLIX, _TRAKT, _LETTERBOXD, _IMDB),
    "Time at the computer": (
        *(_WAKATIME, _ACTIVITYWATCH, _RESCUETIME, _TOGGL, _MANICTIME, _ATIMELOGGER),
        *(_SCREEN_TIME, _GIT),
    ),
    "Calendars and meetings": (_CALENDARS, _TRANSCRIPTS, _GRANOLA),
    "This service": (_OWN,),
}
"""All sources by what they hold, in the order in which pages list them."""

SOURCES: Final = tuple(source for sources in GROUPS.values() for source in sources)

FORMATS: Final[Mapping[str, FileFormat]] = {
    each.name: each for source in SOURCES for each in source.formats
}
"""All formats by their names in receipts."""
