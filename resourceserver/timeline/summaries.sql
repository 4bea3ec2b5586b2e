-- The days of somebody's life, summed up by a job of the worker (summaries.py). One transaction is about one
-- person, and begins with `begin_for`.

-- name: people_due
-- Some of the people whose days have to be summed up, after one of them (sql/functions/summaries.sql).
select svc.people_with_summaries_due(%(after)s, %(limit)s, %(version)s)

-- name: begin_for
-- Opens the transaction of a job for one person (sql/policies.sql).
call svc.open_job(%(user_id)s, %(version)s)

-- name: take_turn
-- Whether the person is ours until the end of the transaction. Two who summed up the same days at once could
-- write what the one has read before the other.
select pg_try_advisory_xact_lock(hashtextextended('summaries of ' || %(user_id)s::uuid, 0))

-- name: await_turn
-- The same, but waits until the person is ours.
select pg_advisory_xact_lock(hashtextextended('summaries of ' || %(user_id)s::uuid, 0))

-- name: person
-- The person's own zone, and the first and the last day on which something was measured; no row: the
-- account is gone.
select person.timezone as tz,
       (extent.first_at at time zone person.timezone)::date as first,
       (extent.last_at at time zone person.timezone)::date as last
  from identity.user as person
 cross join (
           select least(
                      (
                          select min(started_at)
                            from activity.app_session
                           where user_id = %(user_id)s
                      ),
                      (
                          select min(started_at)
                            from activity.coding_session
                           where user_id = %(user_id)s
                      )
                  ) as first_at,
                  -- No session is longer than a day.
                  greatest(
                      (
                          select max(started_at)
                            from activity.app_session
                           where user_id = %(user_id)s
                      ),
                      (
                          select max(started_at)
                            from activity.coding_session
                           where user_id = %(user_id)s
                      )
                  ) + interval '24 hours' as last_at
       ) as extent
 where person.user_id = %(user_id)s

-- name: read_marks
-- Marked days after one of them, in order, and when they were marked. No lock is taken, so no tracker waits
-- while we compute. A mark is seen only when its transaction is over, so that the statements after this one
-- see what it wrote.
select date,
       marked_at
  from activity.summary_due
 where user_id = %(user_id)s
   and date > %(after)s::date
 order by date
 limit %(limit)s::bigint

-- name: remove_marks
-- Removes the marks that were read, the last thing in a transaction. One that was set again meanwhile, or is
-- being set at this moment, stays for the next turn: we may not have seen what it stands for.
delete
  from activity.summary_due
 where user_id = %(user_id)s
   and date = any (
           array(
               select due.date
                 from activity.summary_due as due
                 join unnest(%(dates)s::date[], %(marked_at)s::timestamptz[]) as mark (date, marked_at)
                   on mark.date = due.date
                  and mark.marked_at = due.marked_at
                where due.user_id = %(user_id)s
                order by due.date
                  for update of due skip locked
           )
       )

-- fragment: unbroken
-- `bounds`: the range of `asked`, made longer at both ends until nobody was there for more than five
-- minutes. Switches and streaks never reach over such a break, so from here on they are what they would be
-- on the whole timeline. A break is looked for from session to session; in a dense timeline each is told
-- by its neighbour, which is why the one before is looked at first.
bounds as (
    select coalesce(
               (
                   select session.started_at
                     from activity.app_session as session
                    where session.user_id = %(user_id)s
                      and session.started_at <= asked.starts_at
                      and session.ended_at > session.started_at
                      and not session.idle
                      and (
                              select true
                                from activity.app_session as earlier
                               where earlier.user_id = %(user_id)s
                                 and earlier.started_at < session.started_at
                                 and earlier.started_at >= session.started_at - interval '24 hours 5 minutes'
                                 and earlier.ended_at > earlier.started_at
                                 and earlier.ended_at >= session.started_at - interval '5 minutes'
                                 and not earlier.idle
                               order by earlier.started_at desc
                               limit 1
                          ) is null
                    order by session.started_at desc
                    limit 1
               ),
               asked.starts_at
           ) as starts_at,
           coalesce(
               (
                   select session.started_at
                     from activity.app_session as session
                    where session.user_id = %(user_id)s
                      and session.started_at >= asked.ends_at
                      and session.ended_at > session.started_at
                      and not session.idle
                      and (
                              select true
                                from activity.app_session as earlier
                               where earlier.user_id = %(user_id)s
                                 and earlier.started_at < session.started_at
                                 and earlier.started_at >= session.started_at - interval '24 hours 5 minutes'
                                 and earlier.ended_at > earlier.started_at
                                 and earlier.ended_at >= session.started_at - interval '5 minutes'
                                 and not earlier.idle
                               order by earlier.started_at desc
                               limit 1
                          ) is null
                    order by session.started_at
                    limit 1
               ),
               'infinity'
           ) as ends_at
      from asked
),

-- name: affected_days
-- The first and the last local day that may have changed when something was measured on days in UTC: those
-- of the sessions that began on them, and those of the time without a break around, over which switches and
-- streaks reach. A person who never took a break in a week is summed up wrong further away.
with asked as (
    select %(from)s::date::timestamp at time zone 'UTC' as starts_at,
           (%(to)s::date + 1)::timestamp at time zone 'UTC' as ends_at
),
--include unbroken
extent as (
    select case
               when exists (
                   select
                     from activity.app_session
                    where user_id = %(user_id)s
                      and started_at >= bounds.starts_at
                      and started_at < asked.starts_at
                      and ended_at >= asked.starts_at - interval '5 minutes'
                      and not idle
               )
                   then greatest(bounds.starts_at, asked.starts_at - interval '7 days')
               else asked.starts_at
           end as starts_at,
           least(bounds.ends_at, asked.ends_at + interval '7 days') as ends_at
      from bounds
     cross join asked
),
newest as (
    select max(ended_at) as at
      from (
               select session.ended_at
                 from activity.app_session as session
                where session.user_id = %(user_id)s
                  and session.started_at >= (select starts_at from extent)
                  and session.started_at < (select ends_at from extent)
                union all
               select session.ended_at
                 from activity.coding_session as session
                where session.user_id = %(user_id)s
                  and session.started_at >= (select starts_at from asked)
                  and session.started_at < (select ends_at from asked)
           ) as ended
)
select (extent.starts_at at time zone %(tz)s)::date as first,
       (
           greatest(asked.ends_at - interval '1 millisecond', newest.at) at time zone %(tz)s
       )::date as last
  from extent
 cross join asked
 cross join newest

-- name: days_whose_time_has_come
-- The days whose provisional summaries have to be made for good.
select date
  from activity.daily_summary
 where user_id = %(user_id)s
   and status = 'provisional'
   and final_at <= now()
 order by date

-- name: forget_days
-- Removes the summaries of days, to be made anew.
delete
  from activity.daily_summary
 where user_id = %(user_id)s
   and date between %(from)s and %(to)s

-- name: forget_other_days
-- Removes the summaries of all days but these.
delete
  from activity.daily_summary
 where user_id = %(user_id)s
   and date not between %(from)s and %(to)s

-- name: make_days
-- Sums days up, those on which something was measured. Tops are five at most.
with slot as (
    select n as position,
           date,
           starts_at,
           ends_at
      from svc.days(%(from)s, %(to)s, %(tz)s)
),
wanted as (
    select metric
      from unnest(array[
               'tracked_ms',
               'coding_ms',
               'app_switches',
               'session_count',
               'focus_ms'
           ]) as metric
),
--include asked_days
--include spans
--include categories
--include shown_in_spans
--include judged
--include app_time
--include coding_time
--include switched
--include focused
--include activity_by_day
summed as (
    select position,
           coalesce(sum(value) filter (where metric = 'tracked_ms'), 0) as tracked_ms,
           coalesce(sum(value) filter (where metric = 'productive_ms'), 0) as productive_ms,
           coalesce(sum(value) filter (where metric = 'neutral_ms'), 0) as neutral_ms,
           coalesce(sum(value) filter (where metric = 'distracted_ms'), 0) as distracted_ms,
           coalesce(sum(value) filter (where metric = 'coding_ms'), 0) as coding_ms,
           coalesce(sum(value) filter (where metric = 'app_switches'), 0) as app_switches,
           coalesce(sum(value) filter (where metric = 'focus_ms'), 0) as focus_ms,
           coalesce(sum(value) filter (where metric = 'longest_focus_ms'), 0) as longest_focus_ms
      from measure
     group by position
),
--include ranked_by_day
top as (
    select position,
           json_agg(json_build_object('app', name, 'total_ms', total_ms) order by rank)
               filter (where kind = 'app') as apps,
           json_agg(json_build_object('category', name, 'total_ms', total_ms) order by rank)
               filter (where kind = 'category') as categories,
           json_agg(json_build_object('project', name, 'total_ms', total_ms) order by rank)
               filter (where kind = 'project') as projects
      from ranked
     where rank <= 5
     group by position
)
insert into activity.daily_summary (
    user_id,
    date,
    tz,
    status,
    final_at,
    tracked_ms,
    productive_ms,
    neutral_ms,
    distracted_ms,
    coding_ms,
    app_switches,
    focus_ms,
    longest_focus_ms,
    top_apps,
    top_categories,
    top_projects
)
select %(user_id)s,
       slot.date,
       %(tz)s,
       case when slot.ends_at + interval '1 hour' <= now() then 'final' else 'provisional' end,
       slot.ends_at + interval '1 hour',
       summed.tracked_ms,
       summed.productive_ms,
       summed.neutral_ms,
       summed.distracted_ms,
       summed.coding_ms,
       summed.app_switches,
       summed.focus_ms,
       summed.longest_focus_ms,
       coalesce(top.apps, '[]'),
       coalesce(top.categories, '[]'),
       coalesce(top.projects, '[]')
  from summed
  join slot using (position)
  left join top using (position)
 where slot.starts_at < slot.ends_at
