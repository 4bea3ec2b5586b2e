-- name: app_usage
-- Time spent per application in a range, longest first.
with bounds as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
--include categories
--include app_timeline
per_session as (
    select n,
           app,
           category,
           coalesce(sum(ends_at - starts_at), interval '0') as duration,
           min(starts_at) as first_at,
           max(ends_at) as last_at
      from stretch
     group by n,
              app,
              category
),
per_category as (
    select app,
           category,
           sum(duration) as duration,
           max(duration) as longest,
           count(*) as session_count,
           min(first_at) as first_at,
           max(last_at) as last_at
      from per_session
     group by app,
              category
),
per_app as (
    select app,
           (array_agg(category order by duration desc, category collate "C"))[1] as category,
           svc.duration_ms(sum(duration)) as total_ms,
           svc.duration_ms(max(longest)) as longest_session_ms,
           sum(session_count)::bigint as session_count,
           min(first_at) as first_at,
           max(last_at) as last_at
      from per_category
     group by app
),
total as (
    select coalesce(sum(total_ms), 0)::bigint as tracked_ms,
           count(*) as app_count,
           coalesce(sum(session_count), 0)::bigint as session_count
      from per_app
),
row as (
    select per_app.app,
           per_app.category,
           svc.productivity(coalesce(known.score, 0)) as productivity,
           per_app.total_ms,
           svc.percent(per_app.total_ms, total.tracked_ms) as percent,
           per_app.session_count,
           per_app.longest_session_ms,
           svc.instant(per_app.first_at) as first_used_at,
           svc.instant(per_app.last_at) as last_used_at
      from per_app
     cross join total
      left join score as known using (category)
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       (
           select coalesce(json_agg(row order by total_ms desc, app collate "C"), '[]')
             from row
       ) as data,
       (select row_to_json(total) from total) as totals
  from bounds

-- name: daily
-- Tracked, productive, neutral and distracted time for every calendar day of a range, in order.
with start as (
    select %(from)s::date + n as date,
           n + 1 as position,
           svc.day_start(%(from)s::date + n, %(tz)s) as starts_at
      from generate_series(0, %(to)s::date - %(from)s::date + 1) as n
),
day as (
    select *
      from (select *, lead(starts_at) over (order by position) as ends_at from start) as following
     where ends_at is not null
),
bounds as (
    select min(starts_at) as starts_at,
           max(ends_at) as ends_at,
           array_agg(starts_at order by position) as edges
      from day
),
--include categories
--include app_timeline
-- Cut at the edges of days. A binary search among the edges finds the days that a stretch touches, so
-- that the cost does not grow with the product of stretches and days.
piece as (
    select day.position,
           known.score,
           greatest(stretch.starts_at, day.starts_at) as starts_at,
           least(stretch.ends_at, day.ends_at) as ends_at
      from stretch
     cross join bounds
     cross join lateral generate_series(
               width_bucket(stretch.starts_at, bounds.edges),
               width_bucket(stretch.ends_at, bounds.edges)
           ) as touched (position)
      join day using (position)
      left join score as known using (category)
     where stretch.starts_at < day.ends_at
       and stretch.ends_at > day.starts_at
       and day.starts_at < day.ends_at
),
spent as (
    select position,
           sum(ends_at - starts_at) as tracked,
           sum(ends_at - starts_at) filter (where score >= 1) as productive,
           sum(ends_at - starts_at) filter (where score <= -1) as distracted,
           min(starts_at) as first_at,
           max(ends_at) as last_at
      from piece
     group by position
),
present as (
    select day.position,
           count(*) as session_count
      from counted
     cross join bounds
     cross join lateral generate_series(
               width_bucket(counted.starts_at, bounds.edges),
               width_bucket(counted.ends_at, bounds.edges)
           ) as touched (position)
      join day using (position)
     where counted.starts_at < day.ends_at
       and (counted.ends_at > day.starts_at or counted.starts_at >= day.starts_at)
       and day.starts_at < day.ends_at
     group by day.position
),
measured as (
    select position,
           coalesce(svc.duration_ms(tracked), 0) as tracked_ms,
           coalesce(svc.duration_ms(productive), 0) as productive_ms,
           coalesce(svc.duration_ms(distracted), 0) as distracted_ms,
           first_at,
           last_at
      from spent
),
row as (
    select day.date,
           svc.instant(day.starts_at) as starts_at,
           svc.instant(day.ends_at) as ends_at,
           coalesce(tracked_ms, 0) as tracked_ms,
           coalesce(productive_ms, 0) as productive_ms,
           coalesce(tracked_ms - productive_ms - distracted_ms, 0) as neutral_ms,
           coalesce(distracted_ms, 0) as distracted_ms,
           null::bigint as coding_ms,
           null::bigint as app_switches,
           coalesce(present.session_count, 0) as session_count,
           svc.instant(first_at) as first_activity_at,
           svc.instant(last_at) as last_activity_at,
           coalesce(tracked_ms, 0) > 0 as has_data
      from day
      left join measured using (position)
      left join present using (position)
),
total as (
    select sum(tracked_ms)::bigint as tracked_ms,
           sum(productive_ms)::bigint as productive_ms,
           sum(neutral_ms)::bigint as neutral_ms,
           sum(distracted_ms)::bigint as distracted_ms,
           null::bigint as coding_ms,
           null::bigint as app_switches,
           count(*) as days,
           count(*) filter (where has_data) as active_days
      from row
),
average as (
    select round(tracked_ms::numeric / nullif(active_days, 0))::bigint as tracked_ms,
           round(productive_ms::numeric / nullif(active_days, 0))::bigint as productive_ms,
           round(distracted_ms::numeric / nullif(active_days, 0))::bigint as distracted_ms,
           null::bigint as coding_ms
      from total
)
select json_build_object('from', %(from)s::date, 'to', %(to)s::date) as range,
       %(tz)s::text as tz,
       (select json_agg(row order by date) from row) as data,
       (select row_to_json(total) from total) as totals,
       (select row_to_json(average) from average) as daily_average
