-- name: correlation
-- Each day of a range with the values of two metrics, the second one's taken some days after; null where
-- there is no value. Events that are counted are none on a day on which a tracker reported anything, and
-- unknown on other days; what is measured is unknown unless it was measured. Floating point noise is cut
-- off, so that what is always the same is seen to be.
with slot as (
    select n as position,
           date,
           starts_at,
           ends_at
      from svc.days(
               %(from)s::date + least(%(lag)s::integer, 0),
               %(to)s::date + greatest(%(lag)s::integer, 0),
               %(tz)s
           )
),
wanted as (
    select distinct metric
      from (values (%(metric_a)s::text), (%(metric_b)s::text)) as named (metric)
),
--include added_up_metrics
--include metrics_of_days
paired as (
    select valued.date,
           valued.value as a,
           later.value as b
      from valued
      join valued as later
        on later.date = valued.date + %(lag)s::integer
       and later.metric = %(metric_b)s::text
     where valued.metric = %(metric_a)s::text
       and valued.date between %(from)s::date and %(to)s::date
)
select json_build_object('from', %(from)s::date, 'to', %(to)s::date) as range,
       %(tz)s::text as tz,
       %(method)s::text as method,
       %(lag)s::integer as lag_days,
       json_build_object('name', %(metric_a)s::text, 'unit', (
           select unit
             from health.metric
            where user_id = %(user_id)s
              and 'health:' || metric_type = %(metric_a)s::text
       )) as metric_a,
       json_build_object('name', %(metric_b)s::text, 'unit', (
           select unit
             from health.metric
            where user_id = %(user_id)s
              and 'health:' || metric_type = %(metric_b)s::text
       )) as metric_b,
       (
           select json_agg(json_build_object('date', date, 'a', a, 'b', b) order by date)
             from paired
       ) as days
