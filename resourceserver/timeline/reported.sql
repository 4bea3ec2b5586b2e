-- The days on which any tracker reported anything. On other days, zero activity is unknown rather than measured.

-- fragment: reported_days
-- `reported`: the days in `slot` (date, starts_at, ends_at) on which any tracker reported anything; empty unless
-- %(is_counted)s is true.
-- needs: slot (date, ends_at, starts_at)
-- gives: reported (date)
possible_day as (
    select date,
           starts_at,
           ends_at
      from slot
     where %(is_counted)s::boolean
),
--include unreported_days
reported as (
    select date
      from possible_day
     where starts_at < ends_at
       and date not in (select date from unreported)
),

-- fragment: rendered_slots
-- The slots in `slot` (position, date, starts_at, ends_at), as parameters of the statements of metrics (metrics.py).
-- needs: slot (date, ends_at, position, starts_at)
(
    select json_build_object(
               'dates', coalesce(json_agg(date order by position), '[]'),
               'starts', coalesce(json_agg(starts_at order by position), '[]'),
               'ends', coalesce(json_agg(ends_at order by position), '[]')
           )
      from slot
) as slots
