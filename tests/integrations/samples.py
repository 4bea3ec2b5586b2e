"""A small file of each format, as its service writes it: one function with the name of the format.

All of it is invented. Tests change a copy of what a function returns, where they need other content.
"""

import json
from typing import Any, NamedTuple


class Sample(NamedTuple):
    """A file: its name in the archive or folder, and its content."""

    name: str
    content: bytes


def as_json(value: Any, indent: int | None = 2) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=indent).encode()


def google_records() -> Sample:
    return Sample(
        "Takeout/Location History/Records.json",
        as_json(
            {
                "locations": [
                    {
                        "latitudeE7": 523702157,
                        "longitudeE7": 48951679,
                        "accuracy": 12,
                        "altitude": 3,
                        "verticalAccuracy": 4,
                        "velocity": 1,
                        "heading": 210,
                        "activity": [
                            {
                                "activity": [
                                    {"type": "WALKING", "confidence": 92},
                                    {"type": "STILL", "confidence": 8},
                                ],
                                "timestamp": "2021-05-03T10:00:01.250Z",
                            }
                        ],
                        "source": "GPS",
                        "deviceTag": -8024144696862913506,
                        "platformType": "ANDROID",
                        "formFactor": "PHONE",
                        "batteryCharging": False,
                        "timestamp": "2021-05-03T10:00:00.190Z",
                    },
                    {
                        "timestampMs": "1620036060000",
                        "latitudeE7": -337654321,
                        "longitudeE7": -1234567,
                        "accuracy": 20,
                    },
                ]
            }
        ),
    )


def google_semantic() -> Sample:
    cafe = {
        "latitudeE7": 523710000,
        "longitudeE7": 48910000,
        "placeId": "ChIJcafe",
        "address": "Prinsengracht 1\n1015 Amsterdam\nNederland",
        "name": "Café X",
        "semanticType": "TYPE_SEARCHED_ADDRESS",
    }
    home = {
        "latitudeE7": 523600000,
        "longitudeE7": 48800000,
        "placeId": "ChIJhome",
        "semanticType": "TYPE_HOME",
    }
    return Sample(
        "Takeout/Location History/Semantic Location History/2021/2021_MAY.json",
        as_json(
            {
                "timelineObjects": [
                    {
                        "activitySegment": {
                            "startLocation": home,
                            "endLocation": {"placeId": "ChIJcafe"},
                            "duration": {
                                "startTimestamp": "2021-05-03T09:30:00Z",
                                "endTimestamp": "2021-05-03T09:58:00Z",
                            },
                            "distance": 1900,
                            "activityType": "CYCLING",
                            "activities": [{"activityType": "CYCLING", "probability": 81.5}],
                            "waypointPath": {
                                "waypoints": [{"latE7": 523650000, "lngE7": 48850000}]
                            },
                            "simplifiedRawPath": {
                                "points": [
                                    {
                                        "latE7": 523650000,
                                        "lngE7": 48850000,
                                        "accuracyMeters": 9,
                                        "timestamp": "2021-05-03T09:40:00.500Z",
                                    }
                                ]
                            },
                        }
                    },
                    {
                        "placeVisit": {
                            "location": cafe,
                            "duration": {
                                "startTimestamp": "2021-05-03T09:58:00Z",
                                "endTimestamp": "2021-05-03T11:00:00.000Z",
                            },
                            "placeConfidence": "USER_CONFIRMED",
                            "childVisits": [
                                {
                                    "location": {**cafe, "placeId": "ChIJbar", "name": "The bar"},
                                    "duration": {
                                        "startTimestamp": "2021-05-03T10:30:00Z",
                                        "endTimestamp": "2021-05-03T11:00:00Z",
                                    },
                                }
                            ],
                        }
                    },
                ]
            }
        ),
    )


def google_timeline_edits() -> Sample:
    return Sample(
        "Takeout/Location History (Timeline)/Timeline Edits.json",
        as_json(
            {
                "timelineEdits": [
                    {
                        "deviceId": "-538926953",
                        "rawSignal": {
                            "signal": {
                                "position": {
                                    "point": {"latE7": 426974802, "lngE7": -778539156},
                                    "accuracyMm": 13500,
                                    "altitudeMeters": 224.0,
                                    "source": "WIFI",
                                    "timestamp": "2024-02-17T05:54:00.932Z",
                                    "speedMetersPerSecond": 0.5,
                                }
                            },
                            "additionalTimestamp": "2024-02-17T05:54:01.359Z",
                            "metadata": {"platform": "ANDROID"},
                        },
                    },
                    {
                        "deviceId": "0",
                        "rawSignal": {
                            "signal": {
                                "activityRecord": {
                                    "detectedActivities": [
                                        {"activityType": "STILL", "probability": 0.96}
                                    ],
                                    "timestamp": "2024-02-17T05:55:00Z",
                                }
                            },
                            "additionalTimestamp": "2024-02-17T05:55:01Z",
                            "metadata": {"platform": "UNKNOWN"},
                        },
                    },
                ]
            }
        ),
    )


def google_timeline_android() -> Sample:
    return Sample(
        "Timeline.json",
        as_json(
            {
                "semanticSegments": [
                    {
                        "startTime": "2024-06-16T08:00:00.000+02:00",
                        "endTime": "2024-06-16T10:00:00.000+02:00",
                        "timelinePath": [
                            {
                                "point": "52.3702157°, 4.8951679°",
                                "time": "2024-06-16T08:12:00.000+02:00",
                            }
                        ],
                    },
                    {
                        "startTime": "2024-06-16T08:03:10.000+02:00",
                        "endTime": "2024-06-16T09:00:00.000+02:00",
                        "startTimeTimezoneUtcOffsetMinutes": 120,
                        "endTimeTimezoneUtcOffsetMinutes": 120,
                        "visit": {
                            "hierarchyLevel": 0,
                            "probability": 0.85,
                            "topCandidate": {
                                "placeId": "ChIJhome",
                                "semanticType": "INFERRED_HOME",
                                "probability": 0.9,
                                "placeLocation": {"latLng": "52.3600000°, 4.8800000°"},
                            },
                        },
                    },
                    {
                        "startTime": "2024-06-16T09:00:00.000+02:00",
                        "endTime": "2024-06-16T09:20:00.000+02:00",
                        "activity": {
                            "start": {"latLng": "52.3600000°, 4.8800000°"},
                            "end": {"latLng": "52.3710000°, 4.8910000°"},
                            "distanceMeters": 1900.5,
                            "topCandidate": {"type": "IN_PASSENGER_VEHICLE", "probability": 0.7},
                        },
                    },
                    {
                        "startTime": "2024-06-16T00:00:00.000+02:00",
                        "endTime": "2024-06-18T00:00:00.000+02:00",
                        "timelineMemory": {"trip": {"distanceFromOriginKms": 42}},
                    },
                ],
                "rawSignals": [
                    {
                        "position": {
                            "LatLng": "52.3702157°, 4.8951679°",
                            "accuracyMeters": 13,
                            "altitudeMeters": 3.5,
                            "source": "WIFI",
                            "timestamp": "2024-06-16T09:21:00.250+02:00",
                            "speedMetersPerSecond": 1.25,
                        }
                    },
                    {"wifiScan": {"deliveryTime": "2024-06-16T09:21:01.000+02:00"}},
                ],
                "userLocationProfile": {"frequentPlaces": [{"placeId": "ChIJhome"}]},
            }
        ),
    )


def google_timeline_ios() -> Sample:
    return Sample(
        "location-history.json",
        as_json(
            [
                {
                    "endTime": "2024-06-16T09:00:00.000-05:00",
                    "startTime": "2024-06-16T08:03:10.000-05:00",
                    "visit": {
                        "hierarchyLevel": "1",
                        "topCandidate": {
                            "probability": "0.983039",
                            "semanticType": "Unknown",
                            "placeID": "ChIJshop",
                            "placeLocation": "geo:30.475887,-97.805634",
                        },
                        "probability": "0.640000",
                    },
                },
                {
                    "endTime": "2024-06-16T09:20:00.000-05:00",
                    "startTime": "2024-06-16T09:00:00.000-05:00",
                    "activity": {
                        "probability": "0.571617",
                        "end": "geo:30.479312,-97.798734",
                        "topCandidate": {"type": "in passenger vehicle", "probability": "0.50"},
                        "distanceMeters": "763.017517",
                        "start": "geo:30.475887,-97.805634",
                    },
                },
                {
                    "endTime": "2024-06-16T16:00:00.000Z",
                    "startTime": "2024-06-16T14:00:00.000Z",
                    "timelinePath": [
                        {
                            "point": "geo:30.480000,-97.790000",
                            "durationMinutesOffsetFromStartTime": "56",
                        },
                        {
                            "point": "geo:30.481000,-97.791000",
                            "time": "2024-06-16T10:00:30.000-05:00",
                            "durationMinutesOffsetFromStartTime": 60,
                        },
                    ],
                },
            ]
        ),
    )


APPLE_WATCH = (
    "&lt;&lt;HKDevice: 0x283f00&gt;, name:Apple Watch, manufacturer:Apple Inc., model:Watch, "
    "hardware:Watch6,2, software:8.5, creation date:2022-06-12 21:50:16 +0000&gt;"
)


def apple_record(
    kind: str, start: str, end: str, value: str, unit: str = "", more: str = ""
) -> str:
    """Return an element of Apple's export, of a watch unless ``more`` has attributes of a source."""
    watch = "Zoë's Apple\u00a0Watch"
    source = more or f'sourceName="{watch}" sourceVersion="8.5" device="{APPLE_WATCH}"'
    unit = f' unit="{unit}"' if unit else ""
    return (
        f' <Record type="HK{kind}" {source}{unit} creationDate="{end}" startDate="{start}"'
        f' endDate="{end}" value="{value}"/>'
    )


def apple_health_export(*elements: str) -> bytes:
    """Return an export of these elements, with the declaration that iOS 16 broke."""
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            "<!DOCTYPE HealthData [",
            "<!-- HealthKit Export Version: 12 -->",
            "<!ELEMENT HealthData (ExportDate,Me,(Record|Correlation|Workout)*)>",
            "<!ATTLIST HealthData",
            "  locale CDATA #REQUIRED",
            "<!ELEMENT ExportDate EMPTY>",
            "<!ATTLIST HealthData locale CDATA #REQUIRED>",
            "]>",
            '<HealthData locale="de_DE">',
            ' <ExportDate value="2022-07-01 12:00:00 +0200"/>',
            ' <Me HKCharacteristicTypeIdentifierBiologicalSex="HKBiologicalSexNotSet"/>',
            *elements,
            ' <ActivitySummary dateComponents="2022-06-16" activeEnergyBurned="512"/>',
            "</HealthData>",
            "",
        ]
    ).encode()


def apple_health() -> Sample:
    quantity, night = "QuantityTypeIdentifier", "2022-06-1"
    return Sample(
        "apple_health_export/export.xml",
        apple_health_export(
            apple_record(
                *(f"{quantity}StepCount", "2022-06-16 08:00:00 +0200"),
                *("2022-06-16 08:10:30 +0200", "212", "count"),
            ),
            apple_record(
                *(f"{quantity}HeartRate", "2022-06-16 08:00:05 +0200"),
                *("2022-06-16 08:00:05 +0200", "61.4", "count/min"),
            ),
            *(
                apple_record(
                    "CategoryTypeIdentifierSleepAnalysis",
                    f"{night}{start} +0200",
                    f"{night}{end} +0200",
                    f"HKCategoryValueSleepAnalysis{stage}",
                )
                for start, end, stage in (
                    ("5 22:30:00", "6 06:30:00", "InBed"),
                    ("5 23:00:00", "6 01:00:00", "AsleepCore"),
                    ("6 01:00:00", "6 02:00:00", "AsleepDeep"),
                    ("6 02:00:00", "6 02:15:00", "Awake"),
                    ("6 02:15:00", "6 04:00:00", "AsleepREM"),
                    ("6 04:00:00", "6 06:00:00", "AsleepCore"),
                )
            ),
        ),
    )


def spotify_play(**changed: Any) -> dict[str, Any]:
    """Return a play of the extended history."""
    return {
        "ts": "2023-05-01T12:34:56Z",
        "username": "alice",
        "platform": "Android OS 11 API 30 (samsung, SM-G975F)",
        "ms_played": 178778,
        "conn_country": "NL",
        "ip_addr": "198.51.100.7",
        "master_metadata_track_name": "Andromeda",
        "master_metadata_album_artist_name": "Gorillaz",
        "master_metadata_album_album_name": "Humanz",
        "spotify_track_uri": "spotify:track:7rU6Iebxzlvqy5t857bKFq",
        "episode_name": None,
        "episode_show_name": None,
        "spotify_episode_uri": None,
        "audiobook_title": None,
        "reason_start": "clickrow",
        "reason_end": "trackdone",
        "shuffle": False,
        "skipped": False,
        "offline": False,
        "offline_timestamp": 1682944317,
        "incognito_mode": False,
        **changed,
    }


def spotify_extended() -> Sample:
    return Sample(
        "Spotify Extended Streaming History/Streaming_History_Audio_2023_1.json",
        as_json([spotify_play()]),
    )


def spotify_account_data() -> Sample:
    return Sample(
        "Spotify Account Data/StreamingHistory_music_0.json",
        as_json(
            [
                {
                    "endTime": "2023-05-01 12:34",
                    "artistName": "Gorillaz",
                    "trackName": "Andromeda",
                    "msPlayed": 178778,
                }
            ]
        ),
    )


def fitbit() -> Sample:
    return Sample(
        "Takeout/Fitbit/Global Export Data/steps-2023-06-16.json",
        as_json(
            [
                {"dateTime": "06/16/23 08:00:00", "value": "12"},
                {"dateTime": "06/16/23 08:00:05", "value": {"bpm": 72, "confidence": 3}},
            ]
        ),
    )


def fitbit_sleep() -> Sample:
    return Sample(
        "Takeout/Fitbit/Global Export Data/sleep-2023-06-16.json",
        as_json(
            [
                {
                    "logId": 42012345678,
                    "dateOfSleep": "2023-06-16",
                    "startTime": "2023-06-15T23:10:30.000",
                    "endTime": "2023-06-16T07:10:30.000",
                    "duration": 28800000,
                    "minutesToFallAsleep": 7,
                    "minutesAsleep": 435,
                    "minutesAwake": 45,
                    "minutesAfterWakeup": 0,
                    "timeInBed": 480,
                    "efficiency": 93,
                    "type": "stages",
                    "infoCode": 0,
                    "levels": {
                        "summary": {
                            "deep": {"count": 4, "minutes": 90, "thirtyDayAvgMinutes": 80},
                            "wake": {"count": 9, "minutes": 45, "thirtyDayAvgMinutes": 50},
                            "light": {"count": 20, "minutes": 225, "thirtyDayAvgMinutes": 220},
                            "rem": {"count": 5, "minutes": 120, "thirtyDayAvgMinutes": 110},
                        },
                        "data": [
                            {"dateTime": "2023-06-15T23:10:30.000", "level": "wake", "seconds": 30}
                        ],
                    },
                    "mainSleep": True,
                }
            ]
        ),
    )


def fitbit_weight() -> Sample:
    return Sample(
        "Takeout/Fitbit/Global Export Data/weight-2023-06-16.json",
        as_json(
            [
                {
                    "logId": 1686901799000,
                    "weight": 176.4,
                    "bmi": 23.1,
                    "fat": 18.5,
                    "date": "06/16/23",
                    "time": "07:49:59",
                    "source": "Aria",
                }
            ]
        ),
    )


def google_health() -> Sample:
    return Sample(
        "Takeout/Google Health/Physical Activity_GoogleData/heart_rate_2023-06-16.csv",
        b"timestamp,beats per minute,data source\n"
        b"2023-06-16T08:00:05Z,72.0,Charge 6\n"
        b"2023-06-16T08:00:10Z,74.0,Charge 6\n",
    )


def google_fit() -> Sample:
    stream = "raw:com.google.step_count.delta:com.example.app:Maker:Watch 5:1a2b:steps"
    return Sample(
        "Takeout/Fit/All Data/derived_com.google.step_count.delta_com.google.json",
        as_json(
            {
                "Data Source": "derived:com.google.step_count.delta:com.google.android.gms:merged",
                "Data Points": [
                    {
                        "fitValue": [{"value": {"intVal": 42}}],
                        "originDataSourceId": stream,
                        "endTimeNanos": 1686902460000000000,
                        "dataTypeName": "com.google.step_count.delta",
                        "startTimeNanos": 1686902400000000000,
                        "modifiedTimeMillis": 1686902470123,
                        "rawTimestampNanos": 0,
                    },
                    {
                        "fitValue": [{"value": {"fpVal": 61.4}}],
                        "originDataSourceId": "",
                        "endTimeNanos": 1686902460000000000,
                        "dataTypeName": "com.google.heart_rate.bpm",
                        "startTimeNanos": 1686902460000000000,
                    },
                ],
            }
        ),
    )


def lastfm_csv() -> Sample:
    return Sample(
        "alice.csv",
        b'Gorillaz,Humanz,Andromeda,"08 Feb 2011 22:50"\n"Sigur R\xc3\xb3s",,Hoppipolla,08 Feb 2011 22:54\n',
    )


def lastfm_table() -> Sample:
    return Sample(
        "recenttracks-alice-1297300000.csv",
        b"uts,utc_time,artist,artist_mbid,album,album_mbid,track,track_mbid\n"
        b'"1297205432","08 Feb 2011, 22:50","Gorillaz","","Humanz","","Andromeda",'
        b'"5B11F4CE-A62D-471E-81FC-A69A8278C7DA"\n',
    )


def lastfm_pages() -> Sample:
    track = {
        "artist": {"mbid": "", "#text": "Gorillaz"},
        "streamable": "0",
        "mbid": "5b11f4ce-a62d-471e-81fc-a69a8278c7da",
        "album": {"mbid": "", "#text": "Humanz"},
        "name": "Andromeda",
        "url": "https://www.last.fm/music/Gorillaz/_/Andromeda",
        "date": {"uts": "1297205432", "#text": "08 Feb 2011, 22:50"},
    }
    playing = {"artist": {"#text": "X"}, "name": "Y", "@attr": {"nowplaying": "true"}}
    return Sample(
        "recenttracks-alice-1297300000.json",
        as_json([{"track": [playing, track], "@attr": {"page": "1", "user": "alice"}}]),
    )


def listenbrainz_listen() -> dict[str, Any]:
    return {
        "listened_at": 1297205432,
        "inserted_at": 1297205440.5,
        "track_metadata": {
            "artist_name": "Gorillaz feat. D.R.A.M.",
            "track_name": "Andromeda",
            "release_name": "Humanz",
            "recording_msid": "f1d9d7b8-3bd4-4cd0-9d5a-5a3b0f1f1a11",
            "additional_info": {
                "duration_ms": 197000,
                "artist_names": ["Gorillaz", "D.R.A.M."],
                "isrc": "GBAYE1700123",
                "spotify_id": "https://open.spotify.com/track/7rU6Iebxzlvqy5t857bKFq",
            },
            "mbid_mapping": {"recording_mbid": "5b11f4ce-a62d-471e-81fc-a69a8278c7da"},
        },
    }


def listenbrainz() -> Sample:
    line = as_json(listenbrainz_listen(), indent=None)
    return Sample("listens/2011/2.jsonl", line + b"\n")


def listenbrainz_array() -> Sample:
    return Sample("alice_lb-2023-05-01.json", as_json([listenbrainz_listen()], indent=None))


def maloja() -> Sample:
    return Sample(
        "maloja_export_1297300000.json",
        as_json(
            {
                "maloja": {"export_time": 1297300000},
                "scrobbles": [
                    {
                        "time": 1297205432,
                        "track": {
                            "artists": ["Gorillaz", "D.R.A.M."],
                            "title": "Andromeda",
                            "album": {"artists": ["Gorillaz"], "albumtitle": "Humanz"},
                            "length": 197,
                        },
                        "duration": 178,
                        "origin": "client:default",
                    }
                ],
            }
        ),
    )


def koito() -> Sample:
    def named(name: str, **more: Any) -> dict[str, Any]:
        other = {"alias": name.upper(), "source": "MusicBrainz", "is_primary": False}
        primary = {"alias": name, "source": "Canonical", "is_primary": True}
        return {"mbid": None, "aliases": [other, primary], **more}

    return Sample(
        "koito_export_20110210.json",
        as_json(
            {
                "version": "1",
                "exported_at": "2011-02-10T00:00:00Z",
                "user": "alice",
                "listens": [
                    {
                        "listened_at": "2011-02-08T23:50:32+01:00",
                        "track": named("Andromeda", duration=197),
                        "album": named("Humanz", various_artists=False),
                        "artists": [
                            named("Gorillaz", is_primary=True),
                            named("D.R.A.M.", is_primary=False),
                        ],
                    }
                ],
            }
        ),
    )


def librefm_csv() -> Sample:
    return Sample(
        "librefm.csv",
        b"Time,Artist,Track,Album,MBID\n2011-02-08 22:50:32,Gorillaz,Andromeda,Humanz,\n",
    )


def librefm_tsv() -> Sample:
    return Sample("exported_tracks.txt", b"1297205432\tAndromeda\tGorillaz\tHumanz\t\t\t\n")


def pano_scrobbler() -> Sample:
    line = {
        "timeHuman": "Tue, 08 Feb 2011 at 22:50 GMT+0000",
        "timeMs": 1297205432123,
        "artist": "Gorillaz",
        "track": "Andromeda",
        "album": "Humanz",
        "albumArtist": "Gorillaz",
        "durationMs": 197000,
        "mediaPlayerPackage": "com.maxmpz.audioplayer",
        "event": "scrobble",
    }
    return Sample("scrobbles.jsonl", as_json(line, indent=None) + b"\n")


def rockbox() -> Sample:
    return Sample(
        ".scrobbler.log",
        b"#AUDIOSCROBBLER/1.1\n#TZ/UNKNOWN\n#CLIENT/Rockbox 3.15\n"
        b"Gorillaz\tHumanz\tAndromeda\t11\t197\tL\t1297209032\t\n",
    )


def tidal() -> Sample:
    return Sample(
        "streaming.csv",
        b"artist_name,track_title,entry_date,time_zone\n"
        b"Gorillaz,Andromeda,08/02/2011 23:50,Europe/Berlin\n",
    )


def swarm() -> Sample:
    return Sample(
        "checkins1.json",
        as_json(
            {
                "count": 2,
                "items": [
                    {
                        "id": "5eeb1c7d",
                        "createdAt": "2023-11-14 22:18:20.000000",
                        "type": "checkin",
                        "visibility": "public",
                        "timeZoneOffset": -480,
                        "venue": {
                            "id": "4bf58dd8",
                            "name": "Café X",
                            "url": "https://foursquare.com/v/4bf58dd8",
                        },
                        "lat": 37.7749,
                        "lng": -122.4194,
                        "shout": "with friends",
                        "comments": {"count": 0},
                    },
                    {
                        "id": "5eeb1c7e",
                        "createdAt": 1700000300,
                        "type": "checkin",
                        "timeZoneOffset": 330,
                        "venue": None,
                        "lat": 12.9716,
                        "lng": 77.5946,
                    },
                ],
            }
        ),
    )


def netflix() -> Sample:
    return Sample(
        "CONTENT_INTERACTION/ViewingActivity.csv",
        b"Profile Name,Start Time,Duration,Attributes,Title,Supplemental Video Type,Device Type,"
        b"Bookmark,Latest Bookmark,Country\n"
        b"Alice,2023-11-14 20:18:20,00:51:07,,Dark: Season 2: Endings (Episode 3),,"
        b"Smart TV,00:51:07,00:51:07,DE (Germany)\n"
        b'Alice,2023-11-15 20:00:00,01:58:00,,"Paris, Texas",,Smart TV,01:58:00,01:58:00,DE\n',
    )


def netflix_days() -> Sample:
    return Sample(
        "NetflixViewingHistory.csv",
        b'Title,Date\n"Dark: Season 2: Endings","11/14/23"\n"Paris, Texas","11/15/23"\n',
    )


def trakt_play(**changed: Any) -> dict[str, Any]:
    """Return a play of an episode."""
    return {
        "id": 1982348,
        "watched_at": "2023-11-14T21:09:27.000Z",
        "action": "scrobble",
        "type": "episode",
        "episode": {"season": 2, "number": 3, "title": "Ghosts", "runtime": 55},
        "show": {"title": "Dark", "year": 2017, "genres": ["Drama", "crime"], "runtime": 53},
        **changed,
    }


def trakt() -> Sample:
    movie = {"title": "Paris, Texas", "year": 1984, "genres": ["drama"], "runtime": 145}
    return Sample(
        "watched/history-1.json",
        as_json([trakt_play(), trakt_play(id=1982349, type="movie", movie=movie)]),
    )


def letterboxd() -> Sample:
    return Sample(
        "diary.csv",
        b"Date,Name,Year,Letterboxd URI,Rating,Rewatch,Tags,Watched Date\n"
        b'2023-11-16,"Paris, Texas",1984,https://boxd.it/1aBc,4.5,,,2023-11-15\n',
    )


def imdb() -> Sample:
    return Sample(
        "ratings.csv",
        b"Const,Your Rating,Date Rated,Title,Original Title,URL,Title Type,IMDb Rating,"
        b"Runtime (mins),Year,Genres,Num Votes,Release Date,Directors\n"
        b'tt0087884,9,2023-11-15,"Paris, Texas","Paris, Texas",https://www.imdb.com/title/tt0087884,'
        b'Movie,8.1,145,1984,"Drama, Road Movie",120000,1984-05-19,Wim Wenders\n',
    )
