-- name: correlation
-- The days to compare, those of the second metric later by the lag; the days among them on which a tracker reported
-- anything; and the units of both metrics. The values of the days are read by metric (timeline/measured.sql).
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
--include reported_days
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
       (select coalesce(json_agg(date), '[]') from reported) as reported,
--include rendered_slots
--include end_of_answer
