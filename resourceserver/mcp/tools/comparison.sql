-- name: comparison_frame
-- The days of both periods, and those between them. If the request does not name period b, it is the period before a:
-- the same days of the week, month or year before, or as many days.
--
-- If one period is not over, the other may be limited to the same hours (see `same_hours`).
--include answer
with frame as (
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
                   when %(a)s::text in ('this_quarter', 'last_quarter')
                       then (first_day - interval '3 months')::date
                   when %(a)s::text in ('this_year', 'last_year') then (first_day - interval '1 year')::date
                   else first_day - (last_day - first_day + 1)
               end as first_day,
               case
                   when %(a)s::text in ('this_week', 'last_week') then last_day - 7
                   when %(a)s::text = 'this_month' then (last_day - interval '1 month')::date
                   when %(a)s::text = 'this_quarter' then (last_day - interval '3 months')::date
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
    -- The period that is limited to the same hours: on each of its days, if the other period is only today; or up to the
    -- counterpart of today, if the other period has as many days.
    same_hours as (
        select finished.kind,
               finished.first_day,
               finished.last_day,
               unfinished.first_day = unfinished.last_day as is_each_day,
               finished.first_day + (today.date - unfinished.first_day) as last_counted_day
          from today
          join period as unfinished on today.date between unfinished.first_day and unfinished.last_day
          join period as finished
            on finished.kind <> unfinished.kind
           and (
                   unfinished.first_day = unfinished.last_day and finished.first_day < today.date
                   or finished.last_day < unfinished.first_day
                   and finished.last_day - finished.first_day = unfinished.last_day - unfinished.first_day
               )
    ),
    -- The days of both periods, and the time between them as one slot.
    slot as (
        select day.date,
               day.starts_at,
               day.ends_at,
               case
                   when same_hours.kind is null then day.ends_at
                   when day.date = today.date then day.ends_at
                   when same_hours.is_each_day or day.date = same_hours.last_counted_day
                       then
--include same_hours
                   when day.date < same_hours.last_counted_day then day.ends_at
                   else day.starts_at
               end as counted_until
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
                          ) as stretch,
                          lateral svc.days(stretch.first_day, stretch.last_day, today.tz) as day
                    union all
                   select extent.first_between,
                          svc.day_start(extent.first_between, today.tz),
                          svc.day_start(extent.last_between + 1, today.tz)
                    where extent.first_between <= extent.last_between
               ) as day
          left join same_hours on day.date between same_hours.first_day and same_hours.last_day
    ),
--include reported_days
    framed as (
        with
--include counted_slots
--include due_days
        reported_days as (
            select coalesce(json_agg(date), '[]') as dates
              from reported
        )
        select today.tz,
               today.date as today,
               today.week_starts_on,
               extent.*,
               (
                   select json_build_object(
                              'kind', kind,
                              'is_each_day', is_each_day,
                              'until', case
                                  when is_each_day then to_char(now() at time zone today.tz, 'HH24:MI')
                                  else to_char(
                                           last_counted_day + (now() at time zone today.tz)::time,
                                           'Dy YYYY-MM-DD HH24:MI'
                                       )
                              end
                          )
                     from same_hours
               ) as same_hours,
               reported_days.dates as reported,
               (select dates from due_days) as raw_days,
--include rendered_slots
          from today,
               extent,
               reported_days
    )
    select framed.*,
           svc.day_start(first_day, tz) as starts_at,
           svc.day_start(last_day + 1, tz) as ends_at,
--include frame_scopes
      from framed
),
--include framed
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
