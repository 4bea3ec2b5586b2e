-- name: devices
-- The caller's devices, the newest first: a device keeps its place while pages are read, whatever it sends. Retired ones
-- are left out unless they are requested; one that has sent something since it was retired is in use again.
--include answer
with
--include device_sums
list_row as (
    select device.at,
           device.device_id as id,
           row_to_json(line) as line
      from (
               select device_id,
                      name,
                      display_name,
                      platform,
                      retired_at,
                      first_seen_at,
                      date_trunc('milliseconds', first_seen_at) as at
                 from activity.device
                where user_id = %(user_id)s
                  and (
                          %(include_retired)s::boolean
                          or retired_at is null
                          or exists (
                                 select
                                   from device_sum
                                  where device_sum.device_id = device.device_id
                                    and device_sum.last_sync_at > device.retired_at
                             )
                      )
                  and (date_trunc('milliseconds', first_seen_at), device_id)
                      < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
                order by at desc,
                         device_id desc
                limit %(limit)s::bigint + 1
           ) as device
      left join device_sum using (device_id)
     cross join lateral (
--include tracker
           ) as line
),
--include page
select *
  from page
--include end_of_answer
