-- name: get_goals
-- Goals as the endpoint tells of them, and the days since the week or the month began, whichever is longer.
with
--include today
frame as (
    select tz,
           date as today,
           least(
               date - mod(extract(isodow from date)::integer - week_starts_on + 7, 7),
               date_trunc('month', date::timestamp)::date
           ) as first_day,
           date as last_day,
           svc.day_start(
               least(
                   date - mod(extract(isodow from date)::integer - week_starts_on + 7, 7),
                   date_trunc('month', date::timestamp)::date
               ),
               tz
           ) as starts_at,
           svc.day_start(date + 1, tz) as ends_at
      from today
),
--include gap
answer as (
--query goals
)
select
--include framed
       answer.data,
       answer.count
  from frame
 cross join answer
