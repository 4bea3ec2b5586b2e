-- name: get_places
-- Check-ins and visits of a range, the time in each place, and the distance travelled. Declined visits do not count;
-- the distance does not depend on the search. Points are listed only on request, and then an even selection of them.
-- The distance needs all points, so it is computed for at most a year.
--include answer
with
--include frame
slot as (
    select row_number() over (order by day.date)::integer as position,
           greatest(day.starts_at, frame.starts_at) as starts_at,
           least(day.ends_at, frame.ends_at) as ends_at
      from frame,
           lateral svc.days(frame.first_day, frame.last_day, frame.tz) as day
     where greatest(day.starts_at, frame.starts_at) < least(day.ends_at, frame.ends_at)
),
--include requested_days
slots as (
    select array_agg(starts_at order by position) as starts,
           array_agg(ends_at order by position) as ends
      from slot
    having count(*) <= 366
),
--include stays
--include steps
near as (
    select %(latitude)s::double precision as latitude,
           %(longitude)s::double precision as longitude,
           %(radius_m)s::double precision as radius_m
),
visit as materialized (
    select event.event_id,
           event.type,
           event.status,
           event.started_at,
           event.ended_at,
           event.utc_offset,
           event.note,
           place.place_id,
           place.name,
           place.category,
           place.latitude,
           place.longitude,
           place.address,
           place.city,
           place.country_code,
           tstzrange(
               greatest(stay.started_at, requested.starts_at),
               greatest(least(stay.ended_at, requested.ends_at), stay.started_at, requested.starts_at)
           ) as time
      from requested
     cross join near
      join stay
        on stay.started_at < requested.ends_at
       and (stay.ended_at > requested.starts_at or stay.started_at >= requested.starts_at)
      join location.event as event
        on event.user_id = %(user_id)s
       and event.event_id = stay.event_id
      join location.place as place
        on place.user_id = %(user_id)s
       and place.place_id = stay.place_id
     where (
               %(search)s::text is null
               or svc.matches(place.name, 'contains', %(search)s::text)
               or svc.matches(place.category, 'contains', %(search)s::text)
               or svc.matches(place.address, 'contains', %(search)s::text)
               or svc.matches(place.city, 'contains', %(search)s::text)
               or svc.matches(event.note, 'contains', %(search)s::text)
               or place.country_code = upper(%(search)s::text)
           )
       and (
               near.latitude is null
               or svc.distance_m(
                      svc.degrees(place.latitude),
                      svc.degrees(place.longitude),
                      near.latitude,
                      near.longitude
                  ) <= near.radius_m
           )
),
been as (
    select place_id,
           min(name) as name,
           min(category) as category,
           min(city) as city,
           min(country_code) as country_code,
           count(*) filter (where type = 'visit') as visit_count,
           count(*) filter (where type = 'check_in') as check_in_count,
           max(started_at) as last_at,
           range_agg(time) as times
      from visit
     group by place_id
),
place as (
    select been.*,
           stayed.stayed_ms,
           row_number() over (
               order by stayed.stayed_ms desc,
                        been.last_at desc,
                        been.name collate "C",
                        been.place_id
           ) as rank
      from been,
           lateral (
               select coalesce(sum(svc.duration_ms(upper(part) - lower(part))), 0)::bigint as stayed_ms
                 from unnest(been.times) as part
           ) as stayed
),
-- The matching points of the history. The latitude is compared first, because computing a distance costs more.
fitting as not materialized (
    select point.recorded_at,
           point.point_id,
           point.latitude,
           point.longitude,
           point.accuracy_m
      from location.point,
           near
     where point.user_id = %(user_id)s
       and %(raw)s::boolean
       and point.recorded_at >= (select starts_at from requested)
       and point.recorded_at < (select ends_at from requested)
       and (
               near.latitude is null
               or abs(point.latitude - near.latitude) < near.radius_m / 111000
               and svc.distance_m(
                       svc.degrees(point.latitude),
                       svc.degrees(point.longitude),
                       near.latitude,
                       near.longitude
                   ) <= near.radius_m
           )
),
extent as (
    select count(*) as count,
           min(recorded_at) as first_at,
           svc.duration_ms(max(recorded_at) - min(recorded_at)) as length_ms
      from fitting
),
-- All of them; if there are more than 500, the first point of each 500th of the time.
point as (
    select fitting.*
      from fitting
     where (select count <= 500 from extent)
     union
    select first.*
      from extent,
           generate_series(0, 499) as n,
           lateral (
               select *
                 from fitting
                where recorded_at >= extent.first_at + n * extent.length_ms / 499 * interval '1 millisecond'
                  and recorded_at
                      < extent.first_at
                        + greatest((n + 1) * extent.length_ms / 499, 1) * interval '1 millisecond'
                order by recorded_at,
                         point_id
                limit 1
           ) as first
     where extent.count > 500
),
listed as (
    select *
      from visit
     where (started_at, event_id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
)
select (
           select coalesce(json_agg(line order by newest.started_at desc, newest.event_id desc), '[]')
             from (
                      select *
                        from listed
                       order by started_at desc,
                                event_id desc
                       limit %(limit)s::integer
                  ) as newest,
                  lateral (
                      select svc.cursor(newest.started_at, newest.event_id) as cursor,
                             newest.type,
                             newest.status,
                             svc.instant(newest.started_at) as started_at,
                             svc.instant(newest.ended_at) as ended_at,
                             svc.duration_ms(newest.ended_at - newest.started_at) as duration_ms,
                             newest.utc_offset,
                             left(newest.name, 500) as name,
                             left(newest.category, 500) as category,
                             left(newest.address, 500) as address,
                             left(newest.city, 500) as city,
                             newest.country_code,
                             newest.latitude,
                             newest.longitude,
                             left(newest.note, 500) as note
                  ) as line
       ) as data,
       (select count(*) from visit) as count,
       (
           select coalesce(
                      json_agg(
                          json_build_object(
                              'name', left(name, 200),
                              'category', left(category, 200),
                              'city', left(city, 200),
                              'country_code', country_code,
                              'stayed_ms', stayed_ms,
                              'visit_count', visit_count,
                              'check_in_count', check_in_count,
                              'last_at', svc.instant(last_at)
                          )
                          order by rank
                      ),
                      '[]'
                  )
             from place
            where rank <= 10
       ) as places,
       (
           select json_build_object(
                      'places', count(*),
                      'stayed_ms', coalesce(sum(stayed_ms), 0)::bigint,
                      'visit_count', coalesce(sum(visit_count), 0)::bigint,
                      'check_in_count', coalesce(sum(check_in_count), 0)::bigint
                  )
             from place
            where rank > 10
       ) as other,
       (select count(*) from place) as place_count,
       (
           select case when count(*) > 0 then coalesce(svc.rounded(sum(distance_m)), 0) end
             from step
       ) as distance_m,
       case when %(raw)s::boolean then (select count from extent) end as point_count,
       (
           select coalesce(
                      json_agg(
                          json_build_object(
                              'at', svc.instant(recorded_at),
                              'latitude', svc.degrees(latitude),
                              'longitude', svc.degrees(longitude),
                              'accuracy_m', accuracy_m
                          )
                          order by recorded_at,
                                   point_id
                      ),
                      '[]'
                  )
             from point
       ) as points,
       (select count(*) from listed) > %(limit)s::integer as has_more,
       (select count(*) from listed) > %(limit)s::integer
           or (select count(*) from place) > 10
           or (select count from extent) > 500 as truncated
  from frame
--include end_of_answer
