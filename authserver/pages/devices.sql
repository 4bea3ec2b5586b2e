-- The queries of the page about devices. The role authserver may not read activity; each statement calls a function
-- that checks the sign-in session of the person (sql/functions/devices.sql).

-- name: devices
-- Devices of the signed-in person, retired ones last. No row: there are none, or the session has ended.
select device_id,
       name,
       display_name,
       platform,
       source,
       first_seen_at,
       last_event_at,
       event_count,
       retired_at
  from svc.devices(%(user_id)s, %(session_hash)s, %(most)s, %(skipped)s, %(device_id)s)

-- name: rename
-- Gives a device a name for people, or none. False: there is no such device, or the session has ended.
select svc.rename_device(%(user_id)s, %(session_hash)s, %(device_id)s, %(display_name)s) as is_done

-- name: retire
-- Retires a device, or ends that. False: there is no such device, or the session has ended.
select svc.retire_device(%(user_id)s, %(session_hash)s, %(device_id)s, %(is_retired)s) as is_done
