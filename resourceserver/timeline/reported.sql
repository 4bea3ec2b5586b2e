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

-- fragment: days_not_stored
-- `reported`: the days in `slot` that `stored` (date) lacks and on which any tracker reported anything; empty unless
-- %(is_counted)s is true. `active`: those of them with a session that is not idle.
-- needs: slot (date, ends_at, starts_at)
-- needs: stored (date)
-- gives: reported (date)
-- gives: active (date)
possible_day as (
    select slot.date,
           slot.starts_at,
           slot.ends_at
      from slot
      left join stored using (date)
     where %(is_counted)s::boolean
       and stored.date is null
),
--include unreported_days
reported as (
    select date
      from possible_day
     where starts_at < ends_at
       and date not in (select date from unreported)
),
active as (
    select date
      from (
               select reported.date,
                      slot.starts_at,
                      slot.ends_at,
                      slot.starts_at - interval '24 hours' as day_before
                 from reported
                 join slot using (date)
               offset 0
           ) as day
     where exists (
               select
                 from activity.app_session
                where user_id = %(user_id)s
                  and started_at > day.day_before
                  and started_at < day.ends_at
                  and ended_at > day.starts_at
                  and not idle
           )
        or exists (
               select
                 from activity.coding_session
                where user_id = %(user_id)s
                  and started_at > day.day_before
                  and started_at < day.ends_at
                  and ended_at > day.starts_at
           )
        or exists (
               select
                 from activity.removed_day as removed
                where removed.user_id = %(user_id)s
                  and removed.date between day.date - 2 and day.date + 1
                  and removed.active && tstzrange(day.starts_at, day.ends_at)
           )
),
-- fragment: counted_slots
-- `slot`: each slot of the outer `slot` in two parts: up to its `counted_until`, and the rest, which has no date and so
-- belongs to no period. The statements of metrics need slots without gaps. A day of which no part counts has no date.
-- needs: slot (counted_until, date, ends_at, starts_at)
-- gives: slot (date, ends_at, position, starts_at)
slot as (
    select row_number() over (order by part.starts_at, part.ends_at)::integer as position,
           part.date,
           part.starts_at,
           part.ends_at
      from slot as whole,
           lateral (
               values (
                          case
                              when whole.counted_until > whole.starts_at or whole.starts_at = whole.ends_at
                                  then whole.date
                          end,
                          whole.starts_at,
                          whole.counted_until
                      ),
                      (null, whole.counted_until, whole.ends_at)
           ) as part (date, starts_at, ends_at)
     where part.date is not null
        or part.starts_at < part.ends_at
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
