-- name: correlation
-- The days to compare, those of the second metric later by the lag, and the units of both metrics. `stored` are the values
-- of activity's metrics on the days that the stored summaries have, if these are of the same zone and up to date. On the
-- other days, `reported` are those on which a tracker reported anything, and `active` those of them with a session that is
-- not idle. What else is needed is read by metric (timeline/measured.sql).
--include answer
with requested as (
    select %(from)s::date + least(%(lag)s::integer, 0) as first_day,
           %(to)s::date + greatest(%(lag)s::integer, 0) as last_day
),
slot as (
    select day.n as position,
           day.date,
           day.starts_at,
           day.ends_at
      from requested
     cross join lateral svc.days(requested.first_day, requested.last_day, %(tz)s) as day
),
stored as materialized (
    select summary.date,
           json_build_object(
               'tracked_ms', summary.tracked_ms,
               'productive_ms', summary.productive_ms,
               'neutral_ms', summary.neutral_ms,
               'distracted_ms', summary.distracted_ms,
               'coding_ms', summary.coding_ms,
               'app_switches', summary.app_switches,
               'focus_ms', summary.focus_ms,
               'longest_focus_ms', summary.longest_focus_ms
           ) as measures
      from requested
      join activity.daily_summary as summary
        on summary.user_id = %(user_id)s
       and summary.date between requested.first_day and requested.last_day
     where %(is_counted)s::boolean
       and summary.tz = %(tz)s::text
       and summary.date not in (
               select pending.date
                 from requested
                cross join lateral svc.pending_days(%(user_id)s, requested.first_day, requested.last_day)
                   as pending (date)
           )
),
--include days_not_stored
unit as (
    select 'health:' || metric_type as metric,
           unit
      from health.metric
     where user_id = %(user_id)s
)
select json_build_object('from', %(from)s::date, 'to', %(to)s::date) as range,
       %(given_tz)s::text as tz,
       %(method)s::text as method,
       %(adjust)s::text as adjust,
       %(lag)s::integer as lag_days,
       json_build_object(
           'name', %(metric_a)s::text,
           'unit', (select unit from unit where metric = %(metric_a)s::text)
       ) as metric_a,
       json_build_object(
           'name', %(metric_b)s::text,
           'unit', (select unit from unit where metric = %(metric_b)s::text)
       ) as metric_b,
       (select json_object_agg(date, measures) from stored) as stored,
       (select coalesce(json_agg(date), '[]') from reported) as reported,
       (select coalesce(json_agg(date), '[]') from active) as active,
--include rendered_slots
--include end_of_answer
