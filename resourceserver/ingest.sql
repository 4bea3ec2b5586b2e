-- name: add_devices
-- Makes the devices of a batch that do not exist yet. The order, here of names and below of keys, is
-- why two batches with the same rows may wait for each other, and never deadlock.
insert into activity.device (user_id, name, platform)
select %(user_id)s,
       name,
       platform
  from json_to_recordset(%(devices)s::json) as sent (name text, platform text)
 order by name collate "C"
    on conflict (user_id, name) do nothing

-- name: add_app_sessions
-- Writes the app sessions of a batch; how many rows it wrote is how many were new. An event whose key
-- is there already changes nothing. The outer join makes a device that was deleted a moment ago an
-- error, where an inner one would drop its events in silence.
insert into activity.app_session (
    user_id,
    idempotency_key,
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
