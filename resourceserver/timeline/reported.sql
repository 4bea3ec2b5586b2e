-- Which days were reported: what makes the difference between "nothing was done" and "nobody looked".

-- fragment: reported_days
-- `reported`: the days in `slot` (date, starts_at, ends_at) on which any tracker reported anything, if
-- %(is_counted)s says that they are needed.
-- needs: slot (date, ends_at, starts_at)
-- gives: reported (date)
reported as (
    select date
      -- The planner looks nothing up by what is subtracted from a column beside row-level security; `offset`
      -- makes a column of it.
      from (
               select date,
                      starts_at,
                      ends_at,
                      starts_at - interval '24 hours' as day_before
                 from slot
                where %(is_counted)s::boolean
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

-- fragment: rendered_slots
-- The slots in `slot` (position, date, starts_at, ends_at), as the statements of metrics take them (metrics.py).
-- needs: slot (date, ends_at, position, starts_at)
(
    select json_build_object(
               'dates', coalesce(json_agg(date order by position), '[]'),
               'starts', coalesce(json_agg(starts_at order by position), '[]'),
               'ends', coalesce(json_agg(ends_at order by position), '[]')
           )
      from slot
) as slots
