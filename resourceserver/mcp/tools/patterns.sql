-- name: patterns_frame
-- The days of the average week: whole weeks that end yesterday.
--include answer
with
--include today
frame as (
    select tz,
           date as today,
           week_starts_on,
           date - 7 * %(weeks)s::integer as first_day,
           date - 1 as last_day
      from today
)
select frame.*,
       svc.day_start(first_day, tz) as starts_at,
       svc.day_start(last_day + 1, tz) as ends_at,
--include frame_scopes
  from frame
--include end_of_answer
