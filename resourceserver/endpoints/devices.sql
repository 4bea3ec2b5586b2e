-- name: devices
-- The caller's devices, the newest first: a device keeps its place while pages are read, whatever it sends.
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
                      platform,
                      first_seen_at,
                      date_trunc('milliseconds', first_seen_at) as at
                 from activity.device
                where user_id = %(user_id)s
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
