-- The statements that write one batch, in this order: its devices, its events, the days that they change, and what
-- each device has sent. The statements that write events return the new ones, which are parameters of the later
-- statements. Devices are written in the order of their names, events in that of their keys, days in their own; so
-- two batches may wait for each other, but never deadlock.

-- name: lock_new_devices
-- Waits for other batches that add devices if this one would bring the person near the limit
-- (sql/functions/devices.sql).
select svc.lock_new_devices(%(devices)s::json, %(most_devices)s)

-- name: add_devices
-- Adds the devices of a batch that do not exist yet, and records the platform of those that had none. Others
-- are not written, so that no batch waits here for another of the same device. Returns the names of those that
-- are not added because the person has the maximum number of devices: the first of the batch come first.
with sent as (
    select sent.name,
           sent.platform,
           sent.place
      from rows from (
               json_to_recordset(%(devices)s::json) as (name text, platform text)
           ) with ordinality as sent (name, platform, place)
),
missing as (
    select sent.name,
           sent.platform,
           row_number() over (order by sent.place) as place
      from sent
      left join activity.device
             on device.user_id = %(user_id)s
            and device.name = sent.name
     where device.device_id is null
),
room as (
    select %(most_devices)s::bigint - count(*) as places
      from activity.device
     where user_id = %(user_id)s
),
added as (
    insert into activity.device (user_id, name, platform)
    select %(user_id)s,
           changed.name,
           changed.platform
      from (
               select missing.name,
                      missing.platform
                 from missing
                where missing.place <= (select places from room)
                union all
               select sent.name,
                      sent.platform
                 from sent
                 join activity.device
                   on device.user_id = %(user_id)s
                  and device.name = sent.name
                where device.platform is null
                  and sent.platform is not null
           ) as changed (name, platform)
     order by changed.name collate "C"
        on conflict (user_id, name) do update
       set platform = excluded.platform
     where device.platform is null
       and excluded.platform is not null
)
select missing.name
  from missing
 where missing.place > (select places from room)

-- fragment: in_open_months
-- Leaves out events that begin in months whose sessions are removed (closed_before). Needs `sent` with `started_ms`.
   and timestamptz 'epoch' + sent.started_ms::bigint * interval '1 millisecond' >= coalesce(
           (
               select closed_before::timestamp at time zone 'UTC'
                 from activity.raw_limit
                where user_id = %(user_id)s
           ),
           '-infinity'
       )

-- name: add_app_sessions
-- Writes the app sessions of a batch, given as a JSON array for each column; returns the keys of those that
-- were new. An event whose key exists already changes nothing. The outer join turns a device that was deleted
-- a moment ago into an error, where an inner join would drop its events silently. Events of devices over the limit
-- are left out; add_devices has returned these devices. So are events from before the time whose sessions are removed
-- (closed_before).
insert into activity.app_session (
    user_id,
    idempotency_key,
    app_session_id,
    device_id,
    started_at,
    ended_at,
    idle,
    app,
    title,
    url,
    domain,
    category,
    utc_offset,
    source,
    metadata,
    import_id
)
select %(user_id)s,
       sent.idempotency_key,
       sent.id::uuid,
       device.device_id,
       timestamptz 'epoch' + sent.started_ms::bigint * interval '1 millisecond',
       timestamptz 'epoch' + sent.ended_ms::bigint * interval '1 millisecond',
       coalesce(sent.idle::boolean, false),
       sent.app,
       sent.title,
       sent.url,
       sent.domain,
       sent.category,
       sent.utc_offset,
       %(source)s,
       sent.metadata::json,
       %(import_id)s::uuid
  from rows from (
           json_array_elements_text(%(idempotency_key)s::json),
           json_array_elements_text(%(id)s::json),
           json_array_elements_text(%(device)s::json),
           json_array_elements_text(%(started_ms)s::json),
           json_array_elements_text(%(ended_ms)s::json),
           json_array_elements_text(%(idle)s::json),
           json_array_elements_text(%(app)s::json),
           json_array_elements_text(%(title)s::json),
           json_array_elements_text(%(url)s::json),
           json_array_elements_text(%(domain)s::json),
           json_array_elements_text(%(category)s::json),
           json_array_elements_text(%(utc_offset)s::json),
           json_array_elements_text(%(metadata)s::json)
       ) as sent (
           idempotency_key,
           id,
           device,
           started_ms,
           ended_ms,
           idle,
           app,
           title,
           url,
           domain,
           category,
           utc_offset,
           metadata
       )
  left join activity.device
         on device.user_id = %(user_id)s
        and device.name = sent.device
 where (
           device.device_id is not null
           or (select count(*) from activity.device where user_id = %(user_id)s) < %(most_devices)s::bigint
       )
--include in_open_months
 order by sent.idempotency_key collate "C"
    on conflict do nothing
returning idempotency_key

-- name: add_coding_sessions
-- Writes the coding sessions of a batch, as add_app_sessions does.
insert into activity.coding_session (
    user_id,
    idempotency_key,
    coding_session_id,
    device_id,
    started_at,
    ended_at,
    project,
    language,
    branch,
    file,
    editor,
    activity,
    lines_added,
    lines_removed,
    is_write,
    utc_offset,
    source,
    metadata,
    import_id
)
select %(user_id)s,
       sent.idempotency_key,
       sent.id::uuid,
       device.device_id,
       timestamptz 'epoch' + sent.started_ms::bigint * interval '1 millisecond',
       timestamptz 'epoch' + sent.ended_ms::bigint * interval '1 millisecond',
       sent.project,
       sent.language,
       sent.branch,
       sent.file,
       sent.editor,
       coalesce(sent.activity, 'coding'),
       sent.lines_added::integer,
       sent.lines_removed::integer,
       sent.is_write::boolean,
       sent.utc_offset,
       %(source)s,
       sent.metadata::json,
       %(import_id)s::uuid
  from rows from (
           json_array_elements_text(%(idempotency_key)s::json),
           json_array_elements_text(%(id)s::json),
           json_array_elements_text(%(device)s::json),
           json_array_elements_text(%(started_ms)s::json),
           json_array_elements_text(%(ended_ms)s::json),
           json_array_elements_text(%(project)s::json),
           json_array_elements_text(%(language)s::json),
           json_array_elements_text(%(branch)s::json),
           json_array_elements_text(%(file)s::json),
           json_array_elements_text(%(editor)s::json),
           json_array_elements_text(%(activity)s::json),
           json_array_elements_text(%(lines_added)s::json),
           json_array_elements_text(%(lines_removed)s::json),
           json_array_elements_text(%(is_write)s::json),
           json_array_elements_text(%(utc_offset)s::json),
           json_array_elements_text(%(metadata)s::json)
       ) as sent (
           idempotency_key,
           id,
           device,
           started_ms,
           ended_ms,
           project,
           language,
           branch,
           file,
           editor,
           activity,
           lines_added,
           lines_removed,
           is_write,
           utc_offset,
           metadata
       )
  left join activity.device
         on device.user_id = %(user_id)s
        and device.name = sent.device
 where (
           device.device_id is not null
           or (select count(*) from activity.device where user_id = %(user_id)s) < %(most_devices)s::bigint
       )
--include in_open_months
 order by sent.idempotency_key collate "C"
    on conflict do nothing
returning idempotency_key

-- name: closed_before
-- The first day, in UTC, whose sessions are accepted; no row: all are (sql/functions/retention.sql). It is read after the
-- events are written, so it excludes all that were left out.
select closed_before
  from activity.raw_limit
 where user_id = %(user_id)s

-- name: mark_days
-- Marks the summaries and rollups of the days in UTC with new events as out of date. A mark that is set again gets
-- a new value even if the clock has not moved, because summaries.sql detects new events by it. Rollups are marked
-- after the events are written, because rollups.sql relies on that order. Those of days whose sessions have been
-- removed are not: nothing can make them again.
with to_sum_up as (
    insert into activity.summary_due (user_id, date)
    select %(user_id)s::uuid,
           touched.date
      from unnest(%(days)s::date[]) as touched (date)
     order by touched.date
        on conflict (user_id, date) do update
       set marked_at = greatest(now(), summary_due.marked_at + interval '1 microsecond')
)
insert into activity.rollup_due (user_id, date)
select %(user_id)s::uuid,
       touched.date
  from unnest(%(days)s::date[]) as touched (date)
 where touched.date >= coalesce(
           (select removed_before from activity.raw_limit where user_id = %(user_id)s), '-infinity'
       )
 order by touched.date
    on conflict (user_id, date) do update
   set marked_at = now(),
       is_left_raw = false

-- name: count_up
-- Records for each device of the batch that it has sent something now, new or not, and counts the new events. It is
-- the last statement and has a row for each device, whatever rows are visible; so if the session has ended and no
-- new events were visible, it fails, and the whole transaction with it.
insert into activity.device_stream (
    user_id,
    device_id,
    stream,
    source,
    last_sync_at,
    first_event_at,
    last_event_at,
    event_count
)
select %(user_id)s,
       device.device_id,
       %(stream)s,
       %(source)s,
       now(),
       timestamptz 'epoch' + sent.oldest_ms * interval '1 millisecond',
       timestamptz 'epoch' + sent.newest_ms * interval '1 millisecond',
       sent.count
  from json_to_recordset(%(counts)s::json) as sent (
           device    text,
           oldest_ms bigint,
           newest_ms bigint,
           count     bigint
       )
  left join activity.device
         on device.user_id = %(user_id)s
        and device.name = sent.device
 order by sent.device collate "C"
    on conflict (user_id, device_id, stream) do update
   set source = case
           when excluded.last_sync_at < device_stream.last_sync_at then device_stream.source
           else excluded.source
       end,
       last_sync_at = greatest(device_stream.last_sync_at, excluded.last_sync_at),
       first_event_at = least(device_stream.first_event_at, excluded.first_event_at),
       last_event_at = greatest(device_stream.last_event_at, excluded.last_event_at),
       event_count = device_stream.event_count + excluded.event_count
