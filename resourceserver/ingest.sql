-- What one batch writes, in this order: its devices, its events, the days that they change, and what each
-- device has sent. Devices come in the order of their names, events in that of their keys, days in their
-- own; that is why two batches may wait for each other, and never deadlock.

-- name: add_devices
-- Makes the devices of a batch that do not exist yet, and notes the platform of those that had none. Others
-- are left alone, so that no batch waits for another of the same device here.
insert into activity.device (user_id, name, platform)
select %(user_id)s,
       sent.name,
       sent.platform
  from json_to_recordset(%(devices)s::json) as sent (name text, platform text)
  left join activity.device
         on device.user_id = %(user_id)s
        and device.name = sent.name
 where device.device_id is null
    or (device.platform is null and sent.platform is not null)
 order by sent.name collate "C"
    on conflict (user_id, name) do update
   set platform = excluded.platform
 where device.platform is null
   and excluded.platform is not null

-- name: add_app_sessions
-- Writes the app sessions of a batch; how many rows it wrote is how many were new. An event whose key
-- is there already changes nothing. The outer join makes a device that was deleted a moment ago an
-- error, where an inner one would drop its events in silence.
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
    metadata
)
select %(user_id)s,
       sent.idempotency_key,
       sent.id,
       device.device_id,
       timestamptz 'epoch' + sent.started_ms * interval '1 millisecond',
       timestamptz 'epoch' + sent.ended_ms * interval '1 millisecond',
       coalesce(sent.idle, false),
       sent.app,
       sent.title,
       sent.url,
       sent.domain,
       sent.category,
       sent.utc_offset,
       sent.source,
       sent.metadata
  from json_to_recordset(%(rows)s::json) as sent (
           idempotency_key text,
           id              uuid,
           device          text,
           started_ms      bigint,
           ended_ms        bigint,
           idle            boolean,
           app             text,
           title           text,
           url             text,
           domain          text,
           category        text,
           utc_offset      text,
           source          text,
           metadata        json
       )
  left join activity.device
         on device.user_id = %(user_id)s
        and device.name = sent.device
 order by sent.idempotency_key collate "C"
    on conflict do nothing

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
    metadata
)
select %(user_id)s,
       sent.idempotency_key,
       sent.id,
       device.device_id,
       timestamptz 'epoch' + sent.started_ms * interval '1 millisecond',
       timestamptz 'epoch' + sent.ended_ms * interval '1 millisecond',
       sent.project,
       sent.language,
       sent.branch,
       sent.file,
       sent.editor,
       coalesce(sent.activity, 'coding'),
       sent.lines_added,
       sent.lines_removed,
       sent.is_write,
       sent.utc_offset,
       sent.source,
       sent.metadata
  from json_to_recordset(%(rows)s::json) as sent (
           idempotency_key text,
           id              uuid,
           device          text,
           started_ms      bigint,
           ended_ms        bigint,
           project         text,
           language        text,
           branch          text,
           file            text,
           editor          text,
           activity        text,
           lines_added     integer,
           lines_removed   integer,
           is_write        boolean,
           utc_offset      text,
           source          text,
           metadata        json
       )
  left join activity.device
         on device.user_id = %(user_id)s
        and device.name = sent.device
 order by sent.idempotency_key collate "C"
    on conflict do nothing

-- fragment: sent
-- `sent`: the events of a batch, as far as it matters when and by which device something was measured.
sent as (
    select idempotency_key,
           id,
           device,
           timestamptz 'epoch' + started_ms * interval '1 millisecond' as started_at,
           timestamptz 'epoch' + ended_ms * interval '1 millisecond' as ended_at
      from json_to_recordset(%(sent)s::json) as event (
               idempotency_key text,
               id              uuid,
               device          text,
               started_ms      bigint,
               ended_ms        bigint
           )
),

-- fragment: new_app_sessions
-- `written`: those of `sent` that were new. They bear the ids that this batch gave them, and no duplicate does.
written as (
    select sent.*
      from sent
      join activity.app_session as session
        on session.user_id = %(user_id)s
       and session.idempotency_key = sent.idempotency_key
       and session.app_session_id = sent.id
)

-- fragment: new_coding_sessions
-- `written`: those of `sent` that were new.
written as (
    select sent.*
      from sent
      join activity.coding_session as session
        on session.user_id = %(user_id)s
       and session.idempotency_key = sent.idempotency_key
       and session.coding_session_id = sent.id
)

-- fragment: mark_days
-- Marks the days in UTC that `written` touches as ones whose summaries are out of date. An event's end is
-- no part of it; one without length touches the day of its start. A mark that is set again becomes another
-- one even where no clock has moved on, for that is how summaries.sql tells that there is more to sum up.
insert into activity.summary_due (user_id, date)
select distinct %(user_id)s::uuid,
       touched.date
  from written
 cross join lateral (
           values ((written.started_at at time zone 'UTC')::date),
                  (
                      (
                          greatest(written.ended_at - interval '1 millisecond', written.started_at)
                          at time zone 'UTC'
                      )::date
                  )
       ) as touched (date)
 order by touched.date
    on conflict (user_id, date) do update
   set marked_at = greatest(now(), summary_due.marked_at + interval '1 microsecond')

-- fragment: count_up
-- Notes for each device of the batch that it has sent something now, new or not, and counts what was new.
-- It comes last and has a row for each device whatever can be read, so that it fails, and all else with it,
-- where the session ended halfway and nothing new was found.
insert into activity.device_stream (
    user_id,
    device_id,
    stream,
    source,
    last_sync_at,
    last_event_at,
    event_count
)
select %(user_id)s,
       device.device_id,
       %(stream)s,
       %(source)s,
       now(),
       newest.ended_at,
       coalesce(newest.count, 0)
  from (select distinct device as name from sent) as named
  left join activity.device
         on device.user_id = %(user_id)s
        and device.name = named.name
  left join (
           select device,
                  max(ended_at) as ended_at,
                  count(*) as count
             from written
            group by device
       ) as newest
         on newest.device = named.name
 order by named.name collate "C"
    on conflict (user_id, device_id, stream) do update
   set source = case
           when excluded.last_sync_at >= device_stream.last_sync_at then excluded.source
           else device_stream.source
       end,
       last_sync_at = greatest(device_stream.last_sync_at, excluded.last_sync_at),
       last_event_at = greatest(device_stream.last_event_at, excluded.last_event_at),
       event_count = device_stream.event_count + excluded.event_count

-- name: mark_app_sessions
-- Marks the days of a batch's new app sessions.
with
--include sent
--include new_app_sessions
--include mark_days

-- name: mark_coding_sessions
-- Marks the days of a batch's new coding sessions.
with
--include sent
--include new_coding_sessions
--include mark_days

-- name: count_app_sessions
-- Counts a batch's new app sessions.
with
--include sent
--include new_app_sessions
--include count_up

-- name: count_coding_sessions
-- Counts a batch's new coding sessions.
with
--include sent
--include new_coding_sessions
--include count_up
