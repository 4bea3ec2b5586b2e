-- What an import does with sessions beside ingest's statements, which write them.

-- name: lengthen_app_sessions
-- Gives sessions that a file brought the end that they have in this file, if it is later: a session goes on after a file
-- was written. Returns their keys. What a tracker sent stays as it is.
update activity.app_session as session
   set ended_at = sent.ended_at
  from (
           select key,
                  timestamptz 'epoch' + max(ended_ms::bigint) * interval '1 millisecond' as ended_at
             from rows from (
                      json_array_elements_text(%(idempotency_key)s::json),
                      json_array_elements_text(%(ended_ms)s::json)
                  ) as sent (
                      key,
                      ended_ms
                  )
            group by key
       ) as sent
 where session.user_id = %(user_id)s
   and session.idempotency_key = sent.key
   and session.import_id is not null
   and session.ended_at < sent.ended_at
returning session.idempotency_key

-- name: lengthen_coding_sessions
-- Does the same with coding sessions, and their lines.
update activity.coding_session as session
   set ended_at = sent.ended_at,
       lines_added = greatest(session.lines_added, sent.lines_added),
       lines_removed = greatest(session.lines_removed, sent.lines_removed)
  from (
           select key,
                  timestamptz 'epoch' + max(ended_ms::bigint) * interval '1 millisecond' as ended_at,
                  max(lines_added::integer) as lines_added,
                  max(lines_removed::integer) as lines_removed
             from rows from (
                      json_array_elements_text(%(idempotency_key)s::json),
                      json_array_elements_text(%(ended_ms)s::json),
                      json_array_elements_text(%(lines_added)s::json),
                      json_array_elements_text(%(lines_removed)s::json)
                  ) as sent (
                      key,
                      ended_ms,
                      lines_added,
                      lines_removed
                  )
            group by key
       ) as sent
 where session.user_id = %(user_id)s
   and session.idempotency_key = sent.key
   and session.import_id is not null
   and session.ended_at < sent.ended_at
returning session.idempotency_key

-- name: count_sessions
-- Counts the new sessions of each device, as ingest does, but notes no tracker as having sent something. It is the last
-- statement and has a row for each device, whatever rows are visible; so if the session has ended and no new sessions
-- were visible, it fails, and the whole transaction with it.
insert into activity.device_stream (user_id, device_id, stream, first_event_at, last_event_at, event_count)
select %(user_id)s,
       device.device_id,
       %(stream)s,
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
   set first_event_at = least(device_stream.first_event_at, excluded.first_event_at),
       last_event_at = greatest(device_stream.last_event_at, excluded.last_event_at),
       event_count = device_stream.event_count + excluded.event_count

-- name: put_screen_times
-- Writes for how long applications were in use on days. What was counted later wins: a phone counts the days of a week
-- again each time. Returns the keys of the rows that are new or have other values.
with written as (
    insert into activity.screen_time (
        user_id,
        screen_time_id,
        source,
        provider_key,
        import_id,
        date,
        device,
        app,
        name,
        duration_ms,
        last_used_at,
        counted_at
    )
    select %(user_id)s,
           sent.id::uuid,
           %(source)s,
           sent.key,
           %(import_id)s,
           sent.date::date,
           sent.device,
           sent.app,
           sent.name,
           sent.duration_ms::integer,
           timestamptz 'epoch' + sent.last_used_at::bigint * interval '1 millisecond',
           timestamptz 'epoch' + sent.counted_at::bigint * interval '1 millisecond'
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(id)s::json),
               json_array_elements_text(%(date)s::json),
               json_array_elements_text(%(device)s::json),
               json_array_elements_text(%(app)s::json),
               json_array_elements_text(%(name)s::json),
               json_array_elements_text(%(duration_ms)s::json),
               json_array_elements_text(%(last_used_at)s::json),
               json_array_elements_text(%(counted_at)s::json)
           ) as sent (
               key,
               id,
               date,
               device,
               app,
               name,
               duration_ms,
               last_used_at,
               counted_at
           )
     order by sent.key collate "C"
        on conflict (user_id, source, provider_key) do update
       set name = excluded.name,
           duration_ms = excluded.duration_ms,
           last_used_at = excluded.last_used_at,
           counted_at = excluded.counted_at
     where excluded.counted_at > screen_time.counted_at
    returning provider_key,
              xmax = 0 as is_new,
              name,
              duration_ms,
              last_used_at
)
-- The table is read as it was before the statement.
select written.provider_key,
       written.is_new
  from written
  left join activity.screen_time as before
         on before.user_id = %(user_id)s
        and before.source = %(source)s
        and before.provider_key = written.provider_key
 where written.is_new
    or (written.name, written.duration_ms, written.last_used_at)
       is distinct from (before.name, before.duration_ms, before.last_used_at)
