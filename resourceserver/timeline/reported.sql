-- Which days were reported: what makes the difference between "nothing was done" and "nobody looked".

-- fragment: reported_days
-- `reported`: the days among `day` (date, starts_at, ends_at) on which any tracker reported anything.
reported as (
    select date
      -- The planner looks nothing up by what is subtracted from a column beside row-level security; `offset`
      -- makes a column of it.
      from (
               select date,
                      starts_at,
                      ends_at,
                      starts_at - interval '24 hours' as day_before
                 from day
               offset 0
           ) as day
     where starts_at < ends_at
       and (
               exists (
                   select
                     from activity.app_session
                    where user_id = %(user_id)s
                      and started_at >= day.starts_at
                      and started_at < day.ends_at
               )
               or exists (
                   select
                     from activity.coding_session
                    where user_id = %(user_id)s
                      and started_at >= day.starts_at
                      and started_at < day.ends_at
               )
               or exists (
                   select
                     from activity.app_session
                    where user_id = %(user_id)s
                      and started_at > day.day_before
                      and started_at < day.starts_at
                      and ended_at > day.starts_at
               )
               or exists (
                   select
                     from activity.coding_session
                    where user_id = %(user_id)s
                      and started_at > day.day_before
                      and started_at < day.starts_at
                      and ended_at > day.starts_at
               )
           )
),
