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
       and device.device_id = point.device_id,
           lateral (
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
       and place.place_id = event.place_id,
           lateral (
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

-- name: places
-- The places of check-ins and visits in a range, those with most time first, at most 500; the totals are those of all.
-- Declined visits do not count. Where visits to a place overlap, their time counts once.
--include answer
with requested as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
--include stays
visit as (
    select stay.place_id,
           event.type,
           stay.started_at,
           tstzrange(
               greatest(stay.started_at, requested.starts_at),
               greatest(least(stay.ended_at, requested.ends_at), stay.started_at, requested.starts_at)
           ) as time
      from requested
      join stay
        on stay.started_at < requested.ends_at
       and (stay.ended_at > requested.starts_at or stay.started_at >= requested.starts_at)
      join location.event as event
        on event.user_id = %(user_id)s
       and event.event_id = stay.event_id
     where requested.starts_at < requested.ends_at
),
been as (
    select place_id,
           count(*) filter (where type = 'visit') as visit_count,
           count(*) filter (where type = 'check_in') as check_in_count,
           max(started_at) as last_at,
           range_agg(time) as times
      from visit
     group by place_id
),
ranked as (
    select been.place_id,
           been.visit_count,
           been.check_in_count,
           been.last_at,
           stayed.stayed_ms,
           row_number() over (
               order by stayed.stayed_ms desc,
                        been.last_at desc,
                        been.place_id
           ) as rank
      from been,
           lateral (
               select coalesce(sum(svc.duration_ms(upper(part) - lower(part))), 0)::bigint as stayed_ms
                 from unnest(been.times) as part
           ) as stayed
)
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       (
           select coalesce(
                      json_agg(
                          json_build_object(
                              'place', json_build_object(
                                  'id', place.place_id,
                                  'name', place.name,
                                  'category', place.category,
                                  'latitude', place.latitude,
                                  'longitude', place.longitude,
                                  'address', place.address,
                                  'city', place.city,
                                  'country_code', place.country_code
                              ),
                              'stayed_ms', ranked.stayed_ms,
                              'visit_count', ranked.visit_count,
                              'check_in_count', ranked.check_in_count,
                              'last_at', svc.instant(ranked.last_at)
                          )
                          order by ranked.rank
                      ),
                      '[]'
                  )
             from ranked
             join location.place as place
               on place.user_id = %(user_id)s
              and place.place_id = ranked.place_id
            where ranked.rank <= 500
       ) as data,
       (
           select json_build_object(
                      'place_count', count(*),
                      'stayed_ms', coalesce(sum(stayed_ms), 0)::bigint,
                      'visit_count', coalesce(sum(visit_count), 0)::bigint,
                      'check_in_count', coalesce(sum(check_in_count), 0)::bigint
                  )
             from ranked
       ) as totals
--include end_of_answer
