-- The statements of an export, within one transaction whose session is open. Each statement of rows has one
-- column, a row as JSON, the oldest first; `starts_at` and `ends_at` are the edges of the
-- requested days, `from` and `to` the days themselves, infinite if the request names none.

-- name: begin
-- Begins the transaction, all of whose statements see one moment.
begin isolation level repeatable read, read only

-- name: lock_version
-- Waits for a migration that excludes older code, and keeps others from starting until the transaction ends.
lock table svc.schema_version in access share mode

-- name: allow_slow_client
-- Lets the transaction wait for a client that reads slowly; the server ends the answer long before this limit.
set local idle_in_transaction_session_timeout = '120s'

-- name: head
-- The current time, the instants at which the days begin and end, and the scopes of the token.
select svc.instant(now()) as exported_at,
       coalesce(svc.day_start(%(from)s::date, %(tz)s)::text, '-infinity') as starts_at,
       coalesce(svc.day_start(%(to)s::date + 1, %(tz)s)::text, 'infinity') as ends_at,
       string_to_array(current_setting('svc.scopes'), ' ') as scopes

-- name: pending_days
-- The days whose summaries are out of date.
select date::text
  from svc.pending_days(%(user_id)s, %(from)s, %(to)s) as date
 order by date

-- name: removed_before
-- The day before which sessions have been removed because of their age; their sums remain. No row: none has.
select removed_before::text
  from activity.raw_limit
 where user_id = %(user_id)s
   and removed_before is not null

-- name: open_rows
-- Opens the cursor of a resource's statement. A statement, like the count below, cannot be a parameter, so psycopg
-- puts it in place of the braces.
declare exported no scroll cursor for {rows}

-- name: fetch_rows
-- The next rows, up to a number of them.
fetch forward {count} from exported

-- name: close_rows
-- Closes the cursor, so that the next resource can open its own.
close exported

-- name: rows_of_answer
-- The rows of an endpoint that returns all of them in one answer.
select row::text
  from (select %(answer)s::json -> 'data' as data) as body
 cross join lateral json_array_elements(
           case json_typeof(body.data)
               when 'array' then body.data
               else json_build_array(body.data)
           end
       ) as row

-- fragment: session_in_range
-- The sessions of the days. None is longer than 24 hours, so the index on their start bounds the search.
 where session.user_id = %(user_id)s
   and session.started_at > %(starts_at)s::timestamptz - interval '24 hours'
   and session.started_at < %(ends_at)s::timestamptz
   and (
           session.ended_at > %(starts_at)s::timestamptz
           or session.started_at >= %(starts_at)s::timestamptz
       )

-- name: app_sessions
-- Sessions of applications, as their trackers sent them.
select row_to_json(line)::text
  from activity.app_session as session
  join activity.device as device
    on device.user_id = %(user_id)s
   and device.device_id = session.device_id
 cross join lateral (
           select session.app_session_id as id,
                  session.idempotency_key,
                  svc.instant(session.started_at) as started_at,
                  svc.instant(session.ended_at) as ended_at,
                  svc.duration_ms(session.ended_at - session.started_at) as duration_ms,
                  session.app,
                  session.title,
                  session.url,
                  session.category,
                  session.idle,
                  device.name as device,
                  device.platform,
                  session.utc_offset,
                  session.metadata,
                  session.source
       ) as line
--include session_in_range
 order by session.started_at,
          session.app_session_id

-- name: coding_sessions
-- Coding sessions, as their trackers sent them.
select row_to_json(line)::text
  from activity.coding_session as session
  join activity.device as device
    on device.user_id = %(user_id)s
   and device.device_id = session.device_id
 cross join lateral (
           select session.coding_session_id as id,
                  session.idempotency_key,
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
                  session.is_write,
                  device.name as device,
                  device.platform,
                  session.utc_offset,
                  session.metadata,
                  session.source
       ) as line
--include session_in_range
 order by session.started_at,
          session.coding_session_id

-- name: devices
-- Devices, and the number of events of each.
with
--include tracked_devices
listed as (
    select device.first_seen_at,
           device.device_id,
           row_to_json(line)::text as line
      from tracked_device as device
     cross join lateral (
--include tracker
           ) as line
)
select line
  from listed
 order by first_seen_at,
          device_id

-- name: category_rules
-- Category rules, in the order in which they are tried.
select row_to_json(line)::text
  from (
           select category_rule_id as id,
                  priority,
                  field,
                  match,
                  pattern,
                  category,
                  svc.instant(switched_off_at) as switched_off_at
             from activity.category_rule
            where user_id = %(user_id)s
       ) as line
 order by line.priority,
          line.id

-- name: category_scores
-- The scores of categories.
select row_to_json(line)::text
  from (
           select category,
                  score
             from activity.category_score
            where user_id = %(user_id)s
       ) as line
 order by line.category collate "C"

-- name: imports
-- The files that the person brought from other services: what became of the records of each part of a file.
select row_to_json(line)::text
  from profile.import
 cross join lateral (
           select import.import_id as id,
                  import.file_name as file,
                  import.file_size as size,
                  'sha256:' || encode(import.digest, 'hex') as digest,
                  import.status,
                  import.problem,
                  svc.instant(import.started_at) as started_at,
                  svc.instant(import.finished_at) as finished_at,
                  import.ignored,
                  import.ignored_names,
                  (
                      select coalesce(json_agg(row_to_json(part) order by part.position), '[]')
                        from (
                                 select stored.position,
                                        stored.name,
                                        stored.format,
                                        stored.source,
                                        stored.size,
                                        stored.records as read,
                                        stored.added as new,
                                        stored.known,
                                        stored.changed,
                                        stored.refused,
                                        svc.instant(stored.first_at) as first_at,
                                        svc.instant(stored.last_at) as last_at,
                                        stored.is_finished as finished,
                                        stored.problem,
                                        (
                                            select coalesce(
                                                       json_agg(
                                                           json_build_object(
                                                               'reason', refusal.reason,
                                                               'count', refusal.count,
                                                               'examples', refusal.examples
                                                           )
                                                           order by refusal.count desc,
                                                                    refusal.reason collate "C"
                                                       ),
                                                       '[]'
                                                   )
                                              from profile.import_refusal as refusal
                                             where refusal.user_id = %(user_id)s
                                               and refusal.import_id = import.import_id
                                               and refusal.name = stored.name
                                        ) as refusals
                                   from profile.import_part as stored
                                  where stored.user_id = %(user_id)s
                                    and stored.import_id = import.import_id
                             ) as part
                  ) as parts
       ) as line
 where import.user_id = %(user_id)s
 order by import.started_at,
          import.import_id

-- name: daily_summaries
-- Stored daily summaries.
select row_to_json(line)::text
  from activity.daily_summary as summary
  left join unnest(%(pending_days)s::date[]) as pending (date)
    on pending.date = summary.date
 cross join lateral (
--include summary
       ) as line
 where summary.user_id = %(user_id)s
   and summary.date between %(from)s::date and %(to)s::date
 order by summary.date

-- name: screen_times
-- For how long each application was in use on a phone, on days of the phone.
select json_build_object(
           'id', screen_time_id,
           'date', date,
           'device', device,
           'app', app,
           'name', name,
           'duration_ms', duration_ms,
           'last_used_at', svc.instant(last_used_at),
           'counted_at', svc.instant(counted_at),
           'source', source,
           'provider_key', provider_key
       )::text
  from activity.screen_time
 where user_id = %(user_id)s
   and date between %(from)s::date and %(to)s::date
 order by date,
          screen_time_id

-- name: code_events
-- Events of code hosts.
select row_to_json(line)::text
  from code.event
 cross join lateral (
--include code_event
       ) as answered
 cross join lateral (
           select answered.*,
                  event.provider_key
       ) as line
 where event.user_id = %(user_id)s
   and event.occurred_at >= %(starts_at)s::timestamptz
   and event.occurred_at < %(ends_at)s::timestamptz
 order by event.occurred_at,
          event.event_id

-- name: health_samples
-- Health samples, metric by metric.
select row_to_json(line)::text
  from health.sample
  join health.metric
    on metric.user_id = %(user_id)s
   and metric.metric_type = sample.metric_type
  join health.source
    on source.user_id = %(user_id)s
   and source.source_id = sample.source_id
 cross join lateral (
           select sample.sample_id as id,
                  sample.metric_type,
                  sample.value,
                  metric.unit,
                  svc.instant(sample.started_at) as started_at,
                  svc.instant(sample.ended_at) as ended_at,
                  sample.utc_offset,
                  json_build_object(
                      'provider', source.provider,
                      'name', source.name,
                      'device', source.device
                  ) as source,
                  json_build_object(
                      'kind', source.kind,
                      'platform', source.platform,
                      'priority', source.priority
                  ) as sensor,
                  sample.is_daily_total,
                  sample.provider_key
       ) as line
 where sample.user_id = %(user_id)s
   and sample.started_at > %(starts_at)s::timestamptz - interval '48 hours'
   and sample.started_at < %(ends_at)s::timestamptz
   and (
           sample.ended_at > %(starts_at)s::timestamptz
           or sample.started_at >= %(starts_at)s::timestamptz
       )
 order by sample.metric_type,
          sample.started_at,
          sample.sample_id

-- name: heart_rates
-- Heart rate readings.
select row_to_json(line)::text
  from health.heart_rate as reading
  left join health.source
         on source.user_id = %(user_id)s
        and source.source_id = reading.source_id
 cross join lateral (
--include heart_rate
       ) as answered
 cross join lateral (
           select answered.*,
                  case
                      when source.source_id is not null
                      then json_build_object(
                          'provider', reading.source,
                          'name', source.name,
                          'device', source.device
                      )
                  end as source,
                  case
                      when source.source_id is not null
                      then json_build_object(
                          'kind', source.kind,
                          'platform', source.platform,
                          'priority', source.priority
                      )
                  end as sensor,
                  reading.provider_key
       ) as line
 where reading.user_id = %(user_id)s
   and reading.recorded_at >= %(starts_at)s::timestamptz
   and reading.recorded_at < %(ends_at)s::timestamptz
 order by reading.recorded_at,
          reading.heart_rate_id

-- name: sleeps
-- Sleeps and naps, each on the local day on which it ended, with the recovery after it and the strain of
-- the day that began with it.
select row_to_json(line)::text
  from health.sleep
  join health.source
    on source.user_id = %(user_id)s
   and source.source_id = sleep.source_id
  left join health.recovery
         on recovery.user_id = %(user_id)s
        and recovery.sleep_id = sleep.sleep_id
  left join health.cycle
         on cycle.user_id = %(user_id)s
        and cycle.sleep_id = sleep.sleep_id
 cross join lateral (
           select (sleep.ended_at at time zone 'UTC' + sleep.utc_offset::interval)::date as date
       ) as local
 cross join lateral (
           select sleep.sleep_id as id,
                  local.date,
                  source.provider,
                  svc.instant(sleep.started_at) as started_at,
                  svc.instant(sleep.ended_at) as ended_at,
                  sleep.utc_offset,
                  sleep.is_nap as nap,
                  sleep.in_bed_ms,
                  sleep.asleep_ms,
                  sleep.awake_ms,
                  sleep.light_ms,
                  sleep.deep_ms,
                  sleep.rem_ms,
                  sleep.no_data_ms,
                  sleep.latency_ms,
                  sleep.disturbance_count,
                  sleep.cycle_count,
                  sleep.efficiency_percent,
                  sleep.performance_percent,
                  sleep.consistency_percent,
                  sleep.need_ms,
                  sleep.debt_ms,
                  sleep.respiratory_rate_bpm,
                  sleep.average_heart_rate_bpm,
                  sleep.lowest_heart_rate_bpm,
                  case
                      when recovery.sleep_id is not null
                      then json_build_object(
                          'score', recovery.score,
                          'state', recovery.state,
                          'resting_heart_rate_bpm', recovery.resting_heart_rate_bpm,
                          'hrv_rmssd_ms', recovery.hrv_rmssd_ms,
                          'spo2_percent', recovery.spo2_percent,
                          'skin_temperature_c', recovery.skin_temperature_c
                      )
                  end as recovery,
                  case
                      when cycle.sleep_id is not null
                      then json_build_object(
                          'score', cycle.strain,
                          'scale_max', cycle.strain_scale_max,
                          'energy_kj', cycle.energy_kj,
                          'average_heart_rate_bpm', cycle.average_heart_rate_bpm,
                          'max_heart_rate_bpm', cycle.max_heart_rate_bpm,
                          'started_at', svc.instant(cycle.started_at),
                          'ended_at', svc.instant(cycle.ended_at)
                      )
                  end as strain,
                  json_build_object(
                      'provider', source.provider,
                      'name', source.name,
                      'device', source.device
                  ) as source,
                  json_build_object(
                      'kind', source.kind,
                      'platform', source.platform,
                      'priority', source.priority
                  ) as sensor,
                  sleep.provider_key
       ) as line
 where sleep.user_id = %(user_id)s
   and local.date between %(from)s::date and %(to)s::date
 order by sleep.ended_at,
          sleep.sleep_id

-- name: listens
-- Plays of tracks.
select row_to_json(line)::text
  from music.listen
 cross join lateral (
--include listen
       ) as answered
 cross join lateral (
           select answered.*,
                  listen.provider_key
       ) as line
 where listen.user_id = %(user_id)s
   and listen.listened_at >= %(starts_at)s::timestamptz
   and listen.listened_at < %(ends_at)s::timestamptz
 order by listen.listened_at,
          listen.listen_id

-- name: locations
-- Location points.
select row_to_json(line)::text
  from location.point
  left join location.device
         on device.user_id = %(user_id)s
        and device.device_id = point.device_id
 cross join lateral (
--include point
       ) as answered
 cross join lateral (
           select answered.*,
                  point.provider_key
       ) as line
 where point.user_id = %(user_id)s
   and point.recorded_at >= %(starts_at)s::timestamptz
   and point.recorded_at < %(ends_at)s::timestamptz
 order by point.recorded_at,
          point.point_id

-- name: location_events
-- Check-ins and visits.
select row_to_json(line)::text
  from location.event
  join location.place
    on place.user_id = %(user_id)s
   and place.place_id = event.place_id
 cross join lateral (
--include location_event
       ) as answered
 cross join lateral (
           select answered.*,
                  event.provider_key,
                  place.provider_key as place_key
       ) as line
 where event.user_id = %(user_id)s
   and event.started_at < %(ends_at)s::timestamptz
   and (
           event.ended_at > %(starts_at)s::timestamptz
           or event.started_at >= %(starts_at)s::timestamptz
       )
 order by event.started_at,
          event.event_id

-- name: insights
-- Insights about weeks that contain a requested day.
select row_to_json(line)::text
  from content.insight
 cross join lateral (
--include insight
       ) as line
 where insight.user_id = %(user_id)s
   and insight.week_start <= %(to)s::date
   and insight.week_end >= %(from)s::date
 order by insight.week_start,
          insight.insight_id

-- name: recordings
-- Recordings with their transcripts.
select row_to_json(line)::text
  from content.recording
 cross join lateral (
--include recording
       ) as answered
 cross join lateral (
           select answered.*,
                  recording.provider_key
       ) as line
 where recording.user_id = %(user_id)s
   and recording.recorded_at >= %(starts_at)s::timestamptz
   and recording.recorded_at < %(ends_at)s::timestamptz
 order by recording.recorded_at,
          recording.recording_id

-- name: plays
-- Films and episodes.
select row_to_json(line)::text
  from content.play
  join content.title
    on title.user_id = %(user_id)s
   and title.title_id = play.title_id
 cross join lateral (
           select coalesce(json_agg(genre order by genre collate "C"), '[]') as genres
             from content.title_genre
            where title_genre.user_id = %(user_id)s
              and title_genre.title_id = play.title_id
       ) as known
 cross join lateral (
           select play.play_id as id,
                  svc.instant(play.watched_at) as watched_at,
                  play.watch_ms,
                  json_build_object(
                      'id', title.title_id,
                      'kind', title.kind,
                      'name', title.name,
                      'genres', known.genres
                  ) as title,
                  play.season,
                  play.episode,
                  play.source,
                  play.provider_key
       ) as line
 where play.user_id = %(user_id)s
   and play.watched_at >= %(starts_at)s::timestamptz
   and play.watched_at < %(ends_at)s::timestamptz
 order by play.watched_at,
          play.play_id

-- name: calendar_events
-- Events of calendars, including cancelled ones.
select row_to_json(line)::text
  from content.calendar_event as event
  join content.calendar
    on calendar.user_id = %(user_id)s
   and calendar.calendar_id = event.calendar_id
 cross join lateral (
--include calendar_event
       ) as answered
 cross join lateral (
           select answered.*,
                  event.provider_key,
                  calendar.provider_key as calendar_key,
                  calendar.timezone as calendar_timezone
       ) as line
 where event.user_id = %(user_id)s
   and event.starts_at < %(ends_at)s::timestamptz
   and (
           event.ends_at > %(starts_at)s::timestamptz
           or event.starts_at >= %(starts_at)s::timestamptz
       )
 order by event.starts_at,
          event.calendar_event_id
