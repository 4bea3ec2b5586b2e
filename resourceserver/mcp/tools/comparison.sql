-- name: comparison_frame
-- The days of both periods, and those between them. Where nothing is said of the other one, it is what came before:
-- the same days of the week, the month or the year before, or as many days.
--include answer
with
--include today
--include named_periods
a as (
    select coalesce(
               %(a_first)s::date,
               named.first_day,
               case when %(a)s::text = 'all' then (select date from known_since) end
           ) as first_day,
           coalesce(%(a_last)s::date, named.last_day) as last_day
      from today
      left join named_period as named on named.name = %(a)s::text
),
before as (
    select case
               when %(a)s::text in ('this_week', 'last_week') then first_day - 7
               when %(a)s::text in ('this_month', 'last_month')
                   then (first_day - interval '1 month')::date
               when %(a)s::text = 'this_year' then (first_day - interval '1 year')::date
               else first_day - (last_day - first_day + 1)
           end as first_day,
           case
               when %(a)s::text in ('this_week', 'last_week') then last_day - 7
               when %(a)s::text = 'this_month' then (last_day - interval '1 month')::date
               when %(a)s::text = 'this_year' then (last_day - interval '1 year')::date
               else first_day - 1
           end as last_day
      from a
),
period as (
    select 'a' as kind,
           first_day,
           last_day
      from a
     union all
    select 'b',
           coalesce(
               %(b_first)s::date,
               named.first_day,
               case when %(b)s::text = 'all' then (select date from known_since) end,
               before.first_day
           ),
           coalesce(%(b_last)s::date, named.last_day, before.last_day)
      from today
     cross join before
      left join named_period as named on named.name = %(b)s::text
),
extent as (
    select min(first_day) as first_day,
           max(last_day) as last_day,
           min(last_day) + 1 as first_between,
           max(first_day) - 1 as last_between,
           min(first_day) filter (where kind = 'a') as a_first,
           min(last_day) filter (where kind = 'a') as a_last,
           min(first_day) filter (where kind = 'b') as b_first,
           min(last_day) filter (where kind = 'b') as b_last
      from period
)
select today.tz,
       today.date as today,
       today.week_starts_on,
       svc.day_start(extent.first_day, today.tz) as starts_at,
       svc.day_start(extent.last_day + 1, today.tz) as ends_at,
       extent.*,
--include frame_scopes
  from today
 cross join extent
--include end_of_answer

-- name: compare_periods
-- What two periods came to in each metric that is wanted, with what a day of them came to on average.
--include answer
with
--include frame
period (kind, first_day, last_day) as (
    values ('a', %(frame_a_first)s::date, %(frame_a_last)s::date),
           ('b', %(frame_b_first)s::date, %(frame_b_last)s::date)
),
between_them as (
    select %(frame_first_between)s::date as first_day,
           %(frame_last_between)s::date as last_day
),
-- The days of both, and all that lies between them as one slot.
slot as materialized (
    select row_number() over (order by starts_at, ends_at)::integer as position,
           date,
           starts_at,
           ends_at
      from (
               select day.date,
                      day.starts_at,
                      day.ends_at
                 from (
                          select distinct frame.tz,
                                 case
                                     when between_them.first_day > between_them.last_day
                                         then frame.first_day
                                     else period.first_day
                                 end as first_day,
                                 case
                                     when between_them.first_day > between_them.last_day
                                         then frame.last_day
                                     else period.last_day
                                 end as last_day
                            from period
                           cross join between_them
                           cross join frame
                      ) as stretch
                cross join lateral svc.days(stretch.first_day, stretch.last_day, stretch.tz) as day
                union all
               select null,
                      svc.day_start(between_them.first_day, frame.tz),
                      svc.day_start(between_them.last_day + 1, frame.tz)
                 from between_them
                cross join frame
                where between_them.first_day <= between_them.last_day
           ) as piece
),
wanted as (
    select metric,
           n
      from unnest(%(metrics)s::text[]) with ordinality as wanted (metric, n)
),
--include added_up_metrics
--include metrics_of_days
--include measures_of_periods
active as (
    select period_day.kind,
           count(distinct period_day.position) as days
      from (
               select position,
                      owned_ms
                 from spent
                union all
               select position,
                      owned_ms
                 from coding_spent
           ) as part
      join period_day using (position)
     where part.owned_ms > 0
     group by period_day.kind
),
summed as (
    select kind,
           metric,
           sum(value) as value
      from (
               select kind,
                      metric,
                      value::double precision as value
                 from measure_of_period
                union all
               select period_day.kind,
                      other_measure.metric,
                      other_measure.value
                 from other_measure
                 join period_day using (position)
           ) as part
     group by kind,
              metric
),
daily as (
    select period_day.kind,
           valued.metric,
           avg(valued.value) as mean,
           stddev_samp(valued.value) as deviation,
           count(valued.value) as days
      from valued
      join period_day using (position)
     group by period_day.kind,
              valued.metric
),
told as (
    select daily.metric,
           daily.kind,
           json_build_object(
               'value', case
                   when daily.days = 0 then null
                   when daily.metric = any (%(counters)s::text[]) then coalesce(summed.value, 0)
                   else daily.mean
               end,
               'active_days', coalesce(active.days, 0),
               'days', daily.days,
               'mean', daily.mean,
               'deviation', daily.deviation
           ) as line
      from daily
      left join summed using (kind, metric)
      left join active using (kind)
)
select (
           select json_object_agg(
                      period.kind,
                      json_build_object(
                          'from', period.first_day,
                          'to', period.last_day,
                          'days', period.last_day - period.first_day + 1,
                          'active_days', coalesce(active.days, 0),
                          'is_over', period.last_day < frame.today
                      )
                  )
             from period
             left join active using (kind)
       ) as periods,
       (
           select json_agg(
                      json_build_object(
                          'metric', wanted.metric,
                          'unit', (
                              select unit
                                from health.metric
                               where user_id = %(user_id)s
                                 and 'health:' || metric_type = wanted.metric
                          ),
                          'a', in_a.line,
                          'b', in_b.line
                      )
                      order by wanted.n
                  )
             from wanted
             join told as in_a
               on in_a.metric = wanted.metric
              and in_a.kind = 'a'
             join told as in_b
               on in_b.metric = wanted.metric
              and in_b.kind = 'b'
       ) as data
  from frame
--include end_of_answer
