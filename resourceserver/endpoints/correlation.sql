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
metric as (
    select metric_type
      from health.metric
     where user_id = %(user_id)s
       and aggregation = 'sum'
       and 'health:' || metric_type in (select metric from wanted)
),
asked_date as (
    select min(date) as first,
           max(date) as last
      from slot
),
--include asked_days
--include spans
--include categories
--include shown_in_spans
--include judged
--include app_time
--include coding_time
--include switched
--include focused
--include activity_by_day
--include health_amounts
--include recovery_days
--include other_measures
measured as (
    select position,
           metric,
           sum(value)::numeric::double precision as value
      from (
               select position,
                      metric,
                      value::double precision as value
                 from measure
                union all
               select position,
                      metric,
                      value
                 from other_measure
           ) as part
     group by position,
              metric
),
reported as (
    select position
      from slot
     where cardinality(%(counters)s::text[]) > 0
       and starts_at < ends_at
       and (
               exists (
                   select
                     from activity.app_session
                    where user_id = %(user_id)s
                      and started_at >= slot.starts_at
                      and started_at < slot.ends_at
               )
               or exists (
                   select
                     from activity.coding_session
                    where user_id = %(user_id)s
                      and started_at >= slot.starts_at
                      and started_at < slot.ends_at
               )
               or exists (
                   select
                     from activity.app_session
                    where user_id = %(user_id)s
                      and started_at > slot.starts_at - interval '24 hours'
                      and started_at < slot.starts_at
                      and ended_at > slot.starts_at
               )
               or exists (
                   select
                     from activity.coding_session
                    where user_id = %(user_id)s
                      and started_at > slot.starts_at - interval '24 hours'
                      and started_at < slot.starts_at
                      and ended_at > slot.starts_at
               )
           )
),
valued as (
    select slot.date,
           wanted.metric,
           case
               when wanted.metric = any (%(counters)s::text[]) and reported.position is not null
                   then coalesce(measured.value, 0)
               else measured.value
           end as value
      from slot
     cross join wanted
      left join measured using (position, metric)
      left join reported using (position)
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
           select json_agg(
                      json_build_object('date', valued.date, 'a', valued.value, 'b', later.value)
                      order by valued.date
                  )
             from valued
             join valued as later
               on later.date = valued.date + %(lag)s::integer
              and later.metric = %(metric_b)s::text
            where valued.metric = %(metric_a)s::text
              and valued.date between %(from)s::date and %(to)s::date
       ) as days
