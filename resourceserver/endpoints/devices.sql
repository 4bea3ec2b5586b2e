-- name: devices
-- The caller's devices, the one that sent something last first.
--include answer
with
--include device_sums
listed as (
    select at,
           device_id
      from (
               select coalesce(
                          date_trunc('milliseconds', device_sum.last_sync_at),
                          timestamptz '0001-01-01 00:00Z'
                      ) as at,
                      device.device_id
                 from activity.device
                 left join device_sum using (device_id)
                where device.user_id = %(user_id)s
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
