-- name: day_frame
-- The requested day, by default today, and the 28 days before it, with the reported ones among them. If the day is
-- today, only the same hours of the earlier days count.
--include answer
with frame as (
    with
--include today
    chosen as (
        select tz,
               date as today,
               week_starts_on,
               coalesce(
                   %(date)s::date,
                   -- The last day with this name, today included.
                   date - mod(extract(isodow from date)::integer - %(weekday)s::integer + 7, 7),
                   date - %(days_ago)s::integer,
                   date
               ) as day
          from today
    ),
    slot as (
        select day.date,
               day.starts_at,
               day.ends_at,
               case
                   when chosen.day = chosen.today and day.date < chosen.today
                       then
--include same_hours
                   else day.ends_at
               end as counted_until
          from chosen,
               today,
               lateral svc.days(chosen.day - 28, chosen.day, chosen.tz) as day
    ),
--include reported_days
    frame as (
        with
--include counted_slots
        reported_days as (
            select coalesce(json_agg(date), '[]') as dates
              from reported
        )
        select tz,
               today,
               week_starts_on,
               day as first_day,
               day as last_day,
               day - 28 as before_first_day,
               day - 1 as before_last_day,
               case when day = today then to_char(now() at time zone tz, 'HH24:MI') end as normal_until,
               reported_days.dates as reported,
--include rendered_slots
          from chosen,
               reported_days
    )
    select frame.*,
           svc.day_start(first_day, tz) as starts_at,
           svc.day_start(last_day + 1, tz) as ends_at,
--include frame_scopes
      from frame
),
--include framed
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
       ends_at <= now() as is_over,
       %(frame_normal_until)s::text as normal_until
  from day
--include end_of_answer
