-- name: devices
-- The caller's devices, the one that sent something last first.
--include answer
with summed as (
    select device_id,
           array_agg(stream order by stream) as streams,
           (array_agg(source order by last_sync_at desc, stream))[1] as source,
           max(last_sync_at) as last_sync_at,
           max(last_event_at) as last_event_at,
           sum(event_count)::bigint as event_count
      from activity.device_stream
     where user_id = %(user_id)s
     group by device_id
),
line as (
    select device.device_id as id,
           device.name,
           device.platform,
           summed.source,
           coalesce(summed.streams, '{}') as streams,
           svc.instant(device.first_seen_at) as first_seen_at,
           svc.instant(summed.last_sync_at) as last_sync_at,
           svc.instant(summed.last_event_at) as last_event_at,
           coalesce(summed.event_count, 0) as event_count,
           case
               when summed.last_sync_at > now() - interval '24 hours' then 'active'
               else 'stale'
           end as status
      from activity.device as device
      left join summed using (device_id)
     where device.user_id = %(user_id)s
)
select coalesce(
           json_agg(
               line order by last_sync_at desc nulls last, name collate "C"
           ),
           '[]'
       ) as data,
       count(*) as count
  from line
--include end_of_answer
