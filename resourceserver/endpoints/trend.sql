-- name: trend
-- The days of a range and those before it that its first medians need, the days among them on which a tracker reported
-- anything, and the unit of a metric of devices. The values of the days are read by metric (timeline/measured.sql).
--include answer
with slot as (
    select day.n as position,
           day.date,
           day.starts_at,
           day.ends_at
      from svc.days(%(first_day)s::date, %(to)s::date, %(tz)s) as day
),
--include reported_days
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
       (select coalesce(json_agg(date), '[]') from reported) as reported,
--include rendered_slots
--include end_of_answer
