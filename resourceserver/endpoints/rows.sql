-- Rows as answers and the export have them. Each fragment has the columns of one `line`, about a table row whose
-- name its description says.

-- fragment: removed_sessions
-- Until when sessions of the range have been removed because of their age, a column of the answer; null where none has.
(
    select svc.instant(removed_before::timestamp at time zone 'UTC')
      from activity.raw_limit
     where user_id = %(user_id)s
       and removed_before::timestamp at time zone 'UTC' > %(from)s::timestamptz
) as removed_before

-- fragment: removed_edges
-- The same for sums, which rollups answer by quarters of an hour: null too where each end of the range is such a quarter
-- or later, since then nothing is missing.
(
    select svc.instant(removed_before::timestamp at time zone 'UTC')
      from activity.raw_limit
     where user_id = %(user_id)s
       and exists (
               select
                 from unnest(array[%(from)s::timestamptz, %(to)s::timestamptz]) as edge
                where edge < removed_before::timestamp at time zone 'UTC'
                  and edge <> date_bin('15 minutes', edge, 'epoch')
           )
) as removed_before

-- fragment: tracked_devices
-- The devices, and the events of each, all streams together. Each stream has a device, but a full join is never a nested
-- loop: where the planner expects a few devices, each of a thousand would be compared with the streams of all others.
-- gives: tracked_device (device_id, display_name, event_count, first_seen_at, last_event_at, last_sync_at, name,
--                        platform, retired_at, source, streams)
tracked_device as materialized (
    select device_id,
           device.name,
           device.display_name,
           device.platform,
           device.first_seen_at,
           device.retired_at,
           device_sum.streams,
           device_sum.source,
           device_sum.last_sync_at,
           device_sum.last_event_at,
           device_sum.event_count
      from (
               select device_id,
                      name,
                      display_name,
                      platform,
                      first_seen_at,
                      retired_at
                 from activity.device
                where user_id = %(user_id)s
           ) as device
      full join (
               select device_id,
                      array_agg(stream order by stream) as streams,
                      (array_agg(source order by last_sync_at desc nulls last, stream))[1] as source,
                      max(last_sync_at) as last_sync_at,
                      max(last_event_at) as last_event_at,
                      sum(event_count)::bigint as event_count
                 from activity.device_stream
                where user_id = %(user_id)s
                group by device_id
           ) as device_sum using (device_id)
),

-- fragment: tracker
-- A tracked `device`. One that has sent something since it was retired is in use again.
select device.device_id as id,
       device.name,
       device.display_name,
       device.platform,
       device.source,
       coalesce(device.streams, '{}') as streams,
       svc.instant(device.first_seen_at) as first_seen_at,
       svc.instant(device.last_sync_at) as last_sync_at,
       svc.instant(device.last_event_at) as last_event_at,
       coalesce(device.event_count, 0) as event_count,
       case
           when device.last_sync_at > now() - interval '24 hours' then 'active'
           else 'stale'
       end as status,
       case
           when (device.last_sync_at > device.retired_at) is not true then svc.instant(device.retired_at)
       end as retired_at

-- fragment: summary
-- A stored `summary`. One that has a row in `pending` may be out of date.
select summary.date,
       summary.tz,
       case when pending.date is null then summary.status else 'provisional' end as status,
       summary.tracked_ms,
       summary.productive_ms,
       summary.neutral_ms,
       summary.distracted_ms,
       summary.coding_ms,
       summary.app_switches,
       summary.focus_ms,
       summary.longest_focus_ms,
       summary.top_apps,
       summary.top_categories,
       summary.top_projects,
       summary.text,
       svc.instant(summary.generated_at) as generated_at

-- fragment: app_session_columns
-- The columns of a `session` that the fragments `decided_category` and then `app_session` need.
select session.app_session_id,
       session.started_at,
       session.ended_at,
       session.app,
       session.title,
       session.url,
       session.domain,
       session.category,
       null::uuid as title_rule,
       session.idle,
       session.device_id,
       session.source

-- fragment: app_session
-- A `session` of an application with its decided category, and its `device`.
-- needs: score (category, score)
select session.app_session_id as id,
       svc.instant(session.started_at) as started_at,
       svc.instant(session.ended_at) as ended_at,
       svc.duration_ms(session.ended_at - session.started_at) as duration_ms,
       session.app,
       session.title,
       session.url,
       session.domain,
       session.known_as as category,
       svc.productivity(
           coalesce((select score from score where category = session.known_as), 0)
       ) as productivity,
       session.idle,
       json_build_object(
           'id', device.device_id,
           'name', device.name,
           'platform', device.platform
       ) as device,
       session.source

-- fragment: coding_session
-- A `session` of work on a project, and its `device`.
select session.coding_session_id as id,
       svc.instant(session.started_at) as started_at,
       svc.instant(session.ended_at) as ended_at,
       svc.duration_ms(session.ended_at - session.started_at) as duration_ms,
       session.project,
       session.language,
       session.branch,
       session.file,
       session.editor,
       session.activity,
       session.lines_added,
       session.lines_removed,
       json_build_object(
           'id', device.device_id,
           'name', device.name,
           'platform', device.platform
       ) as device,
       session.source

-- fragment: code_event
-- An event of a code host.
select event.event_id as id,
       event.type,
       event.action,
       svc.instant(event.occurred_at) as occurred_at,
       event.provider,
       json_build_object('name', event.repository, 'private', event.is_private) as repository,
       event.title,
       event.url,
       event.ref,
       event.sha,
       event.number,
       event.state,
       event.additions,
       event.deletions,
       event.changed_files

-- fragment: heart_rate
-- A reading, and the `source` that took it, if it is known.
select reading.heart_rate_id as id,
       svc.instant(reading.recorded_at) as recorded_at,
       reading.bpm,
       reading.rr_intervals_ms,
       reading.contact,
       case
           when source.source_id is not null
               then json_build_object(
                        'id', source.source_id,
                        'name', source.name,
                        'platform', source.platform
                    )
       end as device

-- fragment: listen
-- A play of a track.
select listen.listen_id as id,
       svc.instant(listen.listened_at) as listened_at,
       listen.track,
       listen.artist,
       listen.artists,
       listen.album,
       listen.played_ms,
       listen.duration_ms,
       listen.is_skipped as skipped,
       listen.source,
       json_build_object(
           'spotify', listen.spotify_uri,
           'isrc', listen.isrc,
           'recording_mbid', listen.recording_mbid
       ) as ids

-- fragment: point
-- A point of the location history, and the `device` that recorded it, if it is known.
select point.point_id as id,
       svc.instant(point.recorded_at) as recorded_at,
       point.latitude,
       point.longitude,
       point.accuracy_m,
       point.altitude_m,
       point.vertical_accuracy_m,
       point.speed_mps,
       point.course_deg,
       point.battery_percent,
       point.activity,
       case
           when device.device_id is not null
               then json_build_object(
                        'id', device.device_id,
                        'name', device.name,
                        'platform', device.platform
                    )
       end as device,
       point.source,
       point.timezone

-- fragment: location_event
-- A check-in or a visit, an `event`, and its `place`.
select event.event_id as id,
       event.type,
       event.status,
       svc.instant(event.started_at) as started_at,
       svc.instant(event.ended_at) as ended_at,
       svc.duration_ms(event.ended_at - event.started_at) as duration_ms,
       event.utc_offset,
       json_build_object(
           'id', place.place_id,
           'name', place.name,
           'category', place.category,
           'latitude', place.latitude,
           'longitude', place.longitude,
           'address', place.address,
           'city', place.city,
           'country_code', place.country_code
       ) as place,
       event.note,
       event.source

-- fragment: insight
-- An insight about a week.
select insight.insight_id as id,
       insight.week_start,
       insight.week_end,
       insight.tz,
       insight.title,
       insight.summary,
       insight.highlights,
       insight.model,
       svc.instant(insight.generated_at) as generated_at

-- fragment: recording
-- A recording, with its transcript.
select recording.recording_id as id,
       svc.instant(recording.recorded_at) as recorded_at,
       recording.duration_ms,
       recording.title,
       recording.language,
       recording.source,
       json_build_object(
           'status', recording.transcript_status,
           'text', recording.transcript,
           'segments', recording.transcript_segments
       ) as transcript

-- fragment: calendar_event
-- An `event` and its `calendar`.
select event.calendar_event_id as id,
       json_build_object(
           'id', calendar.calendar_id,
           'name', calendar.name,
           'provider', calendar.provider
       ) as calendar,
       event.title,
       event.description,
       event.location,
       svc.instant(event.starts_at) as starts_at,
       svc.instant(event.ends_at) as ends_at,
       svc.duration_ms(event.ends_at - event.starts_at) as duration_ms,
       event.start_date is not null as all_day,
       event.start_date,
       event.end_date,
       event.timezone,
       event.status,
       event.response,
       json_build_object(
           'name', event.organizer_name,
           'self', event.organizer_is_self
       ) as organizer,
       event.attendee_count,
       event.series_id is not null as recurring,
       event.series_id,
       event.conference_url,
       svc.instant(event.updated_at) as updated_at
