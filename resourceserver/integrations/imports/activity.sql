-- Counting the sessions that ingest's statements wrote.

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
