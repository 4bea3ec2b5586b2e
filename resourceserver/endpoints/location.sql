-- name: locations
-- Location points of a range, the newest first.
--include answer
with list_row as (
    select point.recorded_at as at,
           point.point_id as id,
           row_to_json(line) as line
      from (
               select *
                 from location.point
                where user_id = %(user_id)s
                  and recorded_at >= %(from)s::timestamptz
                  and recorded_at < %(to)s::timestamptz
                  and (recorded_at, point_id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
                order by recorded_at desc,
                         point_id desc
                limit %(limit)s::bigint + 1
           ) as point
      left join location.device as device
        on device.user_id = %(user_id)s
       and device.device_id = point.device_id
     cross join lateral (
--include point
           ) as line
),
--include page
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       page.*
  from page
--include end_of_answer

-- name: location_events
-- Check-ins in a range, and visits that overlap it, the newest first.
--
-- A visit may last for weeks, so one that began before the range is searched in two ways: less than a day before, by
-- its start, and among the few that last longer than a day, by their end.
--include answer
with event as (
    (
        select *
          from location.event
         where user_id = %(user_id)s
           and started_at > %(from)s::timestamptz - interval '24 hours'
           and started_at < %(to)s::timestamptz
           and (
                   started_at >= %(from)s::timestamptz
                   or type = 'visit' and ended_at > %(from)s::timestamptz
               )
           and %(from)s::timestamptz < %(to)s::timestamptz
           and (started_at, event_id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
         order by started_at desc,
                  event_id desc
         limit %(limit)s::bigint + 1
    )
     union all
    select *
      from location.event
     where user_id = %(user_id)s
       and type = 'visit'
       and ended_at - started_at > interval '24 hours'
       and ended_at > %(from)s::timestamptz
       and started_at <= %(from)s::timestamptz - interval '24 hours'
       and %(from)s::timestamptz < %(to)s::timestamptz
       and (started_at, event_id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
),
list_row as (
    select event.started_at as at,
           event.event_id as id,
           row_to_json(line) as line
      from (
               select *
                 from event
                order by started_at desc,
                         event_id desc
                limit %(limit)s::bigint + 1
           ) as event
      join location.place as place
        on place.user_id = %(user_id)s
       and place.place_id = event.place_id
     cross join lateral (
--include location_event
           ) as line
),
--include page
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       page.*
  from page
--include end_of_answer
