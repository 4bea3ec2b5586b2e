-- name: trend
-- The range, and the unit of a metric of devices.
--include answer
with device_metric as (
    select unit,
           aggregation
      from health.metric
     where user_id = %(user_id)s
       and 'health:' || metric_type = %(metric)s::text
)
select json_build_object('from', %(from)s::date, 'to', %(to)s::date) as range,
       %(given_tz)s::text as tz,
       %(metric)s::text as metric,
       (select unit from device_metric) as unit,
       (select aggregation from device_metric) as aggregation,
       %(by)s::text as by,
       %(include_levels)s::boolean as include_levels
--include end_of_answer

-- name: days
-- The days of a range and those before it that its first medians need. `stored` are the values of days that the stored
-- summaries have, if these are of the same zone and up to date; their metrics are activity's. On the other days,
-- `reported` are those on which a tracker reported anything, and `active` those of them with a session that is not
-- idle. What else is needed is read by metric (timeline/measured.sql).
--include answer
with slot as (
    select day.n as position,
           day.date,
           day.starts_at,
           day.ends_at
      from svc.days(%(first_day)s::date, %(to)s::date, %(tz)s) as day
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
      from activity.daily_summary as summary
     where %(is_counted)s::boolean
       and summary.user_id = %(user_id)s
       and summary.date between %(first_day)s::date and %(to)s::date
       and summary.tz = %(tz)s::text
       and summary.date not in (
               select pending.date
                 from svc.pending_days(%(user_id)s, %(first_day)s::date, %(to)s::date) as pending (date)
           )
),
--include days_not_stored
per_day as (
    select json_object_agg(date, measures) as measures
      from stored
)
select (select measures from per_day) as stored,
       (select coalesce(json_agg(date), '[]') from reported) as reported,
       (select coalesce(json_agg(date), '[]') from active) as active,
--include rendered_slots
--include end_of_answer
