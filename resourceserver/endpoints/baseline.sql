-- name: health_baseline
-- The days of a range and those before it with which its first days are compared, and the unit of a metric of devices.
-- The values of the days are read by metric (timeline/measured.sql).
--include answer
with slot as (
    select day.n as position,
           day.date,
           day.starts_at,
           day.ends_at
      from svc.days(%(from)s::date - %(window)s::integer, %(to)s::date, %(tz)s) as day
)
select json_build_object('from', %(from)s::date, 'to', %(to)s::date) as range,
       %(given_tz)s::text as tz,
       %(metric)s::text as metric,
       (
           select unit
             from health.metric
            where user_id = %(user_id)s
              and 'health:' || metric_type = %(metric)s::text
       ) as unit,
       %(window)s::integer as window_days,
--include rendered_slots
--include end_of_answer
