-- name: usual_day
-- When the person's days usually begin and end: the medians of the first and the last minute of use on days with any.
-- A day lasts until four in the morning, so that what is done after midnight belongs to the evening before.
--include answer
with
--include frame
day as (
    select day.date,
           timezone(frame.tz, day.date + time '04:00') as starts_at,
           timezone(frame.tz, day.date + 1 + time '04:00') as ends_at,
           frame.tz
      from frame
     cross join lateral svc.days(frame.first_day, frame.last_day, frame.tz) as day
),
used as (
    select day.date + time '12:00' as noon,
           timezone(day.tz, use.first_at) as first_at,
           timezone(day.tz, use.last_at) as last_at
      from day
     cross join lateral (
               select min(greatest(session.started_at, day.starts_at)) as first_at,
                      max(least(session.ended_at, day.ends_at)) as last_at
                 from activity.app_session as session
                where session.user_id = %(user_id)s
                  and not session.idle
                  -- No session is longer than a day, so the index on its start bounds the search.
                  and session.started_at > day.starts_at - interval '24 hours'
                  and session.started_at < day.ends_at
                  and session.ended_at > day.starts_at
           ) as use
     where use.first_at is not null
),
-- In minutes after noon, so that midnight is in the middle.
median as (
    select percentile_cont(0.5) within group (
               order by extract(epoch from date_trunc('minute', first_at) - noon) / 60
           ) as first_minute,
           percentile_cont(0.5) within group (
               order by extract(epoch from date_trunc('minute', last_at) - noon) / 60
           ) as last_minute,
           count(*) as days
      from used
)
select to_char(time '12:00' + round(first_minute) * interval '1 minute', 'HH24:MI') as starts_at,
       to_char(time '12:00' + round(last_minute) * interval '1 minute', 'HH24:MI') as ends_at,
       days
  from median
--include end_of_answer
