-- name: devices
-- The caller's devices, the newest first: a device keeps its place while pages are read, whatever it sends. Retired ones
-- are left out unless they are requested; one that has sent something since it was retired is in use again.
--include answer
with
--include tracked_devices
list_row as (
    select device.at,
           device.device_id as id,
           row_to_json(line) as line
      from (
               select *,
                      date_trunc('milliseconds', first_seen_at) as at
                 from tracked_device
                where (
                          %(include_retired)s::boolean
                          or retired_at is null
                          or last_sync_at > retired_at
                      )
                  and (date_trunc('milliseconds', first_seen_at), device_id)
                      < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
                order by at desc,
                         device_id desc
                limit %(limit)s::bigint + 1
           ) as device
     cross join lateral (
--include tracker
           ) as line
),
--include page
select *
  from page
--include end_of_answer
