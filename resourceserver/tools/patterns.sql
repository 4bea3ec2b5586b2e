-- name: get_patterns
-- The average week as the endpoint tells of it, and the days over which it was taken.
with
--include today
frame as (
    select tz,
           date as today,
           date - 7 * %(weeks)s::integer as first_day,
           date - 1 as last_day,
           svc.day_start(date - 7 * %(weeks)s::integer, tz) as starts_at,
           svc.day_start(date, tz) as ends_at
      from today
),
--include gap
answer as (
--query hourly_patterns
)
select
--include framed
       answer.weeks,
       answer.weeks_with_data,
       answer.data,
       answer.by_day
  from frame
 cross join answer
