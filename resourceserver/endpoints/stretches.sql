-- name: day_timeline
-- One local day in order: its stretches by category and by project, and when its activity begins and ends.
-- `unreported_time` then reads when no tracker reported anything.
--
-- The day is cut into cells of the requested length. A cell belongs to the category, or project, with most time in it,
-- and adjacent cells of the same one are a stretch. So the number of stretches has a limit, however many sessions a day
-- has, and their times add up to the day's.
--
-- The night before and the night after are read too: the day's activity begins and ends with the longest gap of each.
--include answer
with recursive day as (
    select starts_at,
           ends_at
      from svc.days(%(date)s::date, %(date)s::date, %(tz)s)
),
requested as (
    select (%(date)s::date - 1 + time '18:00') at time zone %(tz)s as starts_at,
           (%(date)s::date + 1 + time '12:00') at time zone %(tz)s as ends_at,
           (%(date)s::date - 1 + time '18:00') at time zone %(tz)s - interval '24 hours' as read_from
),
edge_ms as (
    select (extract(epoch from requested.starts_at) * 1000)::bigint as evening_before,
           (extract(epoch from (%(date)s::date + time '12:00') at time zone %(tz)s) * 1000)::bigint as noon,
           (extract(epoch from (%(date)s::date + time '18:00') at time zone %(tz)s) * 1000)::bigint as evening,
           (extract(epoch from requested.ends_at) * 1000)::bigint as noon_after,
           (extract(epoch from day.starts_at) * 1000)::bigint as starts,
           (extract(epoch from day.ends_at) * 1000)::bigint as ends,
           (extract(epoch from least(now(), %(until)s::timestamptz)) * 1000)::bigint as known_until,
           %(resolution_s)s::bigint * 1000 as step
      from requested
     cross join day
),
--include reach_of_streaks
--include timeline_days
--include categories
--include rule_inputs_in_days
--include decided_category
--include decided_labels
--include placed_segments
coding_session as (
    select row_number() over (
               order by
--include coding_owner_order
           )::integer as n,
           session.project,
           dense_rank() over (order by session.project collate "C")::integer as name,
           session.started_at,
           session.ended_at
      from activity.coding_session as session
      join activity.device as device
        on device.user_id = %(user_id)s
       and device.device_id = session.device_id
     where session.user_id = %(user_id)s
       and session.started_at > (select read_from from requested)
       and session.started_at < (select ends_at from requested)
       and session.ended_at > (select starts_at from requested)
),
-- Names of categories and projects are numbers in byte order, because a day may have tens of thousands of parts.
owned as materialized (
    select false as is_coding,
           (select apps from label_map)[placed.place] as app,
           (select categories from label_map)[placed.place] as name,
           placed.starts_ms,
           placed.ends_ms
      from placed
     cross join edge_ms
     where placed.starts_ms < edge_ms.noon_after
       and placed.ends_ms > edge_ms.evening_before
     union all
    select true,
           null,
           session.name,
           (extract(epoch from segment.starts_at) * 1000)::bigint,
           (extract(epoch from segment.ends_at) * 1000)::bigint
      from (
               select array_agg(started_at order by n) as starts,
                      array_agg(ended_at order by n) as ends
                 from coding_session
           ) as coding_timeline
     cross join lateral svc.owned_segments(coding_timeline.starts, coding_timeline.ends) as segment
      join coding_session as session using (n)
),
-- The parts of cells by application and project.
part as (
    select owned.is_coding,
           cell.n::integer,
           owned.app,
           owned.name,
           sum(piece.ends_ms - piece.starts_ms)::bigint as ms,
           min(piece.starts_ms) as starts_ms,
           max(piece.ends_ms) as ends_ms
      from edge_ms
      join owned
        on owned.starts_ms < edge_ms.ends
       and owned.ends_ms > edge_ms.starts
       -- A day that the zone skipped has no cell.
       and edge_ms.starts < edge_ms.ends
     cross join lateral generate_series(
               greatest(owned.starts_ms - edge_ms.starts, 0) / edge_ms.step,
               (least(owned.ends_ms, edge_ms.ends) - edge_ms.starts - 1) / edge_ms.step
           ) as cell (n)
     cross join lateral (
               select greatest(owned.starts_ms, edge_ms.starts + cell.n * edge_ms.step) as starts_ms,
                      least(owned.ends_ms, edge_ms.ends, edge_ms.starts + (cell.n + 1) * edge_ms.step)
                          as ends_ms
           ) as piece
     group by 1, 2, 3, 4
),
cell as (
    select is_coding,
           n,
           name,
           min(n) over (partition by is_coding, name, island) as first_cell
      from (
               select *,
                      n - row_number() over (partition by is_coding, name order by n) as island
                 from (
                          select is_coding,
                                 n,
                                 (array_agg(name order by ms desc, name))[1] as name
                            from (
                                     select is_coding,
                                            n,
                                            name,
                                            sum(ms) as ms
                                       from part
                                      group by 1, 2, 3
                                 ) as named
                           group by 1, 2
                      ) as owned_cell
           ) as numbered
),
-- Each part has a cell, but a full join is never a nested loop, however few rows the planner expects.
stretch as (
    select is_coding,
           first_cell,
           min(name) as name,
           (array_agg(app order by own_ms desc, app) filter (where own_ms > 0))[1] as app,
           count(app) as app_count,
           sum(ms)::bigint as total_ms,
           sum(own_ms)::bigint as own_ms,
           min(starts_ms) as starts_ms,
           max(ends_ms) as ends_ms
      from (
               select is_coding,
                      cell.first_cell,
                      min(cell.name) as name,
                      part.app,
                      sum(part.ms)::bigint as ms,
                      coalesce(sum(part.ms) filter (where part.name = cell.name), 0)::bigint as own_ms,
                      min(part.starts_ms) as starts_ms,
                      max(part.ends_ms) as ends_ms
                 from part
                 full join cell using (is_coding, n)
                group by is_coding,
                         cell.first_cell,
                         part.app
           ) as used
     group by 1, 2
),
app_row as (
    select svc.instant(to_timestamp(stretch.starts_ms / 1000.0)) as starts_at,
           svc.instant(to_timestamp(stretch.ends_ms / 1000.0)) as ends_at,
           (select categories from names)[stretch.name] as category,
           svc.productivity(coalesce(known.score, 0)) as productivity,
           stretch.total_ms,
           stretch.own_ms as category_ms,
           (select apps from names)[stretch.app] as app,
           stretch.app_count
      from stretch
      left join score as known on known.category = (select categories from names)[stretch.name]
     where not stretch.is_coding
),
coding_row as (
    select svc.instant(to_timestamp(starts_ms / 1000.0)) as starts_at,
           svc.instant(to_timestamp(ends_ms / 1000.0)) as ends_at,
           (
               select array_agg(distinct project collate "C" order by project collate "C")
                 from coding_session
           )[name] as project,
           total_ms
      from stretch
     where is_coding
),
active as (
    select coalesce(range_agg(int8range(starts_ms, ends_ms)), '{}') as ranges
      from owned
),
rest as (
    select distinct on (night.is_before)
           night.is_before,
           lower(gap) as starts_ms,
           upper(gap) as ends_ms
      from edge_ms
     cross join active
     cross join lateral (
               values (true, edge_ms.evening_before, edge_ms.noon),
                      (false, edge_ms.evening, edge_ms.noon_after)
           ) as night (is_before, starts_ms, ends_ms)
     cross join lateral unnest(
               int8multirange(
                   int8range(
                       night.starts_ms,
                       greatest(night.starts_ms, least(night.ends_ms, edge_ms.known_until))
                   )
               ) - active.ranges
           ) as gap
     where upper(gap) - lower(gap) >= 10800000
     order by night.is_before,
              upper(gap) - lower(gap) desc,
              lower(gap)
),
activity as (
    select night.begins_after_gap,
           night.ends_before_gap,
           -- The gaps beside a day that the zone skipped may overlap.
           active.ranges
               * int8multirange(int8range(night.starts_ms, greatest(night.starts_ms, night.ends_ms)))
               as ranges
      from active
     cross join (
               select before.ends_ms is not null as begins_after_gap,
                      after.starts_ms is not null as ends_before_gap,
                      coalesce(before.ends_ms, edge_ms.starts) as starts_ms,
                      coalesce(after.starts_ms, edge_ms.ends) as ends_ms
                 from edge_ms
                 left join rest as before on before.is_before
                 left join rest as after on not after.is_before
           ) as night
)
select %(date)s::date as date,
       %(given_tz)s::text as tz,
       json_build_object('from', svc.instant(day.starts_at), 'to', svc.instant(day.ends_at)) as range,
       json_build_object(
           'first_at', svc.instant(to_timestamp(lower(activity.ranges) / 1000.0)),
           'last_at', svc.instant(to_timestamp(upper(activity.ranges) / 1000.0)),
           'begins', case when activity.begins_after_gap then 'gap' else 'midnight' end,
           'ends', case when activity.ends_before_gap then 'gap' else 'midnight' end
       ) as activity,
       %(resolution_s)s::bigint * 1000 as resolution_ms,
       (select coalesce(json_agg(app_row order by starts_at), '[]') from app_row) as apps,
       (select coalesce(json_agg(coding_row order by starts_at), '[]') from coding_row) as coding
  from day
 cross join activity
--include end_of_answer

-- name: unreported_time
-- The times of a local day, up to an instant, in which no tracker reported any session for five minutes: no coding, no
-- application, and not that the person was away. Of sessions that have been removed because of their age, the quarters of
-- an hour are known in which they were; `removed_before` is until when, or null where that is before the evening before.
--include answer
with day as materialized (
    select starts_at,
           greatest(starts_at, least(ends_at, now(), %(until)s::timestamptz)) as ends_at,
           starts_at - interval '24 hours' as read_from
      from svc.days(%(date)s::date, %(date)s::date, %(tz)s)
),
reported as (
    select coalesce(range_agg(tstzrange(started_at, ended_at)), '{}') as times
      from (
               select started_at,
                      ended_at
                 from activity.app_session
                where user_id = %(user_id)s
                  and started_at > (select read_from from day)
                  and started_at < (select ends_at from day)
                  and ended_at > (select starts_at from day)
                union all
               select started_at,
                      ended_at
                 from activity.coding_session
                where user_id = %(user_id)s
                  and started_at > (select read_from from day)
                  and started_at < (select ends_at from day)
                  and ended_at > (select starts_at from day)
                union all
               select lower(quarters),
                      upper(quarters)
                 from activity.removed_day as removed
                cross join lateral unnest(removed.reported) as quarters
                where removed.user_id = %(user_id)s
                  and removed.date >= (select (read_from at time zone 'UTC')::date from day)
                  and removed.date <= (select (ends_at at time zone 'UTC')::date from day)
           ) as session
),
row as (
    select svc.instant(lower(gap)) as starts_at,
           svc.instant(upper(gap)) as ends_at,
           svc.duration_ms(upper(gap) - lower(gap)) as duration_ms
      from day
     cross join reported
     cross join lateral unnest(
               tstzmultirange(tstzrange(day.starts_at, day.ends_at)) - reported.times
           ) as gap
     where upper(gap) - lower(gap) >= interval '5 minutes'
)
select coalesce(json_agg(row order by starts_at), '[]') as times,
       (
           select svc.instant(removed_before::timestamp at time zone 'UTC')
             from activity.raw_limit
            where user_id = %(user_id)s
              -- The activity of the day begins at 18:00 of the day before, or later.
              and removed_before::timestamp at time zone 'UTC'
                  > (%(date)s::date - 1 + time '18:00') at time zone %(tz)s
       ) as removed_before
  from row
--include end_of_answer

-- name: screen_time
-- For how long applications were in use on phones on a day of theirs, as these counted it: the 100 longest times.
--include answer
with row as (
    select device,
           app,
           name,
           duration_ms,
           source
      from activity.screen_time
     where user_id = %(user_id)s
       and date = %(date)s::date
     order by duration_ms desc,
              device collate "C",
              app collate "C",
              screen_time_id
     limit 100
)
select coalesce(json_agg(row), '[]') as times,
       (
           select count(*)
             from activity.screen_time
            where user_id = %(user_id)s
              and date = %(date)s::date
       ) as count
  from row
--include end_of_answer
