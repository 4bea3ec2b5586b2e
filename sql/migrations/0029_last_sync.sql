-- Usable from version 20 on.
-- Older code reads null as a tracker that is not active, and replaces it when the tracker sends something. It does not
-- write the first event of a new device.

-- When a tracker last sent something for a device; null if only imports brought its sessions. And the start of the
-- earliest session, because no index finds it by device.
alter table activity.device_stream
    alter column last_sync_at drop not null,
    add column first_event_at timestamptz(3),
    drop constraint device_stream_year_has_four_digits,
    add constraint device_stream_year_has_four_digits check (
        least(last_sync_at, first_event_at, last_event_at) >= '0001-01-01 00:00:00+00'
        and greatest(last_sync_at, first_event_at, last_event_at) <= '9999-12-31 23:59:59.999+00'
    );

update activity.device_stream
   set first_event_at = earliest.started_at
  from (
           select user_id,
                  device_id,
                  'app_sessions' as stream,
                  min(started_at) as started_at
             from activity.app_session
            group by user_id,
                     device_id
            union all
           select user_id,
                  device_id,
                  'coding_sessions',
                  min(started_at)
             from activity.coding_session
            group by user_id,
                     device_id
       ) as earliest
 where device_stream.user_id = earliest.user_id
   and device_stream.device_id = earliest.device_id
   and device_stream.stream = earliest.stream;
