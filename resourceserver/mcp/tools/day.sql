-- name: day_frame
-- The requested day, or today; and the 28 days before it, with the days on which a tracker reported anything.
--include answer
with
--include today
chosen as (
    select tz,
           date as today,
           week_starts_on,
           coalesce(%(date)s::date, date) as day
      from today
),
slot as (
    select days.n as position,
           days.date,
           days.starts_at,
           days.ends_at
      from chosen
     cross join lateral svc.days(chosen.day - 28, chosen.day, chosen.tz) as days
),
--include reported_days
frame as (
    select tz,
           today,
           week_starts_on,
           day as first_day,
           day as last_day,
           day - 28 as before_first_day,
           day - 1 as before_last_day,
           (select coalesce(json_agg(date), '[]') from reported) as reported,
--include rendered_slots
      from chosen
)
select frame.*,
       svc.day_start(first_day, tz) as starts_at,
       svc.day_start(last_day + 1, tz) as ends_at,
--include frame_scopes
  from frame
--include end_of_answer

-- name: get_day
-- The date of the day, and whether it is over.
--include answer
with
--include frame
day as (
    select *
      from frame
)
select first_day as date,
       ends_at <= now() as is_over
  from day
--include end_of_answer
