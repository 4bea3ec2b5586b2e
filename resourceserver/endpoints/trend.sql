-- name: trend
-- The days of a range and those before it that its first medians need, and the unit of a metric of devices. `stored` are
-- the values of days that the stored summaries have, if these are of the same zone and up to date; their metrics are
-- activity's. On the other days, `reported` are those on which a tracker reported anything, and `active` those of them
-- with a session that is not idle. What else is needed is read by metric (timeline/measured.sql).
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
           case %(metric)s::text
               when 'tracked_ms' then summary.tracked_ms
               when 'productive_ms' then summary.productive_ms
               when 'neutral_ms' then summary.neutral_ms
               when 'distracted_ms' then summary.distracted_ms
               when 'coding_ms' then summary.coding_ms
               when 'app_switches' then summary.app_switches
               when 'focus_ms' then summary.focus_ms
               when 'longest_focus_ms' then summary.longest_focus_ms
           end as value
      from activity.daily_summary as summary
     where summary.user_id = %(user_id)s
       and summary.date between %(first_day)s::date and %(to)s::date
       and summary.tz = %(tz)s::text
       and summary.date not in (
               select pending.date
                 from svc.pending_days(%(user_id)s, %(first_day)s::date, %(to)s::date) as pending (date)
           )
),
--include days_not_stored
device_metric as (
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
       (select json_object_agg(date, json_build_object(%(metric)s::text, value)) from stored) as stored,
       (select coalesce(json_agg(date), '[]') from reported) as reported,
       (select coalesce(json_agg(date), '[]') from active) as active,
--include rendered_slots
--include end_of_answer
