-- name: goals_frame
-- The days since the week or the month began, whichever was earlier.
--include answer
with frame as (
    with
--include today
    frame as (
        select tz,
               date as today,
               week_starts_on,
               least(
                   date - mod(extract(isodow from date)::integer - week_starts_on + 7, 7),
                   date_trunc('month', date::timestamp)::date
               ) as first_day,
               date as last_day
          from today
    )
    select frame.*,
           svc.day_start(first_day, tz) as starts_at,
           svc.day_start(last_day + 1, tz) as ends_at,
--include frame_scopes
      from frame
),
--include framed
--include end_of_answer
