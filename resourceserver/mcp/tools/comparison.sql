-- name: comparison_frame
-- The days of both periods, and those between them. If the request does not name the second period, it is the one
-- before the first: the same days of the week, month or year before, or the same number of days.
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
),
-- The days of both periods, and all days between them as one slot.
slot as (
    select row_number() over (order by piece.starts_at, piece.ends_at)::integer as position,
           piece.date,
           piece.starts_at,
           piece.ends_at
      from today
     cross join extent
     cross join lateral (
               select day.date,
                      day.starts_at,
                      day.ends_at
                 from (
                          select first_day,
                                 last_day
                            from period
                           where extent.first_between <= extent.last_between
                           union all
                          select extent.first_day,
                                 extent.last_day
                           where extent.first_between > extent.last_between
                      ) as stretch
                cross join lateral svc.days(stretch.first_day, stretch.last_day, today.tz) as day
                union all
               select extent.first_between,
                      svc.day_start(extent.first_between, today.tz),
                      svc.day_start(extent.last_between + 1, today.tz)
                where extent.first_between <= extent.last_between
           ) as piece
),
--include reported_days
framed as (
    select today.tz,
           today.date as today,
           today.week_starts_on,
           extent.*,
           (select coalesce(json_agg(date), '[]') from reported) as reported,
--include rendered_slots
      from today
     cross join extent
)
select framed.*,
       svc.day_start(first_day, tz) as starts_at,
       svc.day_start(last_day + 1, tz) as ends_at,
--include frame_scopes
  from framed
--include end_of_answer

-- name: compare_periods
-- Both periods, whether they are over, and the units of metrics that devices measure.
--include answer
with
--include frame
period (kind, first_day, last_day) as (
    values ('a', %(frame_a_first)s::date, %(frame_a_last)s::date),
           ('b', %(frame_b_first)s::date, %(frame_b_last)s::date)
)
select (
           select json_object_agg(
                      period.kind,
                      json_build_object(
                          'from', period.first_day,
                          'to', period.last_day,
                          'days', period.last_day - period.first_day + 1,
                          'is_over', period.last_day < frame.today
                      )
                  )
             from period
       ) as periods,
       (
           select coalesce(json_object_agg('health:' || metric_type, unit), '{}')
             from health.metric
            where user_id = %(user_id)s
              and 'health:' || metric_type = any (%(metrics)s::text[])
       ) as units,
       %(metrics)s::text[] as metrics
  from frame
--include end_of_answer
