-- name: devices
-- The caller's devices, the newest first: a device keeps its place while pages are read, whatever it sends.
--include answer
with
--include device_sums
listed as (
    select at,
           device_id
      from (
               select date_trunc('milliseconds', first_seen_at) as at,
                      device_id
                 from activity.device
                where user_id = %(user_id)s
           ) as dated
     where (at, device_id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
     order by at desc,
              device_id desc
     limit %(limit)s::bigint + 1
),
list_row as (
    select listed.at,
           listed.device_id as id,
           row_to_json(line) as line
      from listed
      join activity.device
        on device.user_id = %(user_id)s
       and device.device_id = listed.device_id
      left join device_sum
             on device_sum.device_id = listed.device_id
     cross join lateral (
--include tracker
           ) as line
),
--include page
select *
  from page
--include end_of_answer
