-- The summaries of a person's days, written by a job of the worker (summaries.py). One transaction is about one
-- person, and begins with `begin_for`.

-- name: people_due
-- Up to :limit people with days to sum up, in order of their ids, after one id (sql/functions/summaries.sql).
select svc.people_with_summaries_due(%(after)s, %(limit)s, %(version)s, %(quiet)s, %(patience)s)

-- name: begin_for
-- Opens the transaction of a job for one person (sql/policies.sql).
call svc.open_job(%(user_id)s, %(version)s)

-- name: commit_soon
-- Lets the commit not wait for the disk. A transaction that is lost in a crash of the server has removed no mark
-- either, so its days are summed up again.
set local synchronous_commit = off

-- name: take_turn
-- Whether this transaction is the only one that sums up the person's days; true reserves them until it ends. Two
-- transactions that sum up the same days could overwrite a newer summary with an older one.
select pg_try_advisory_xact_lock(hashtextextended('summaries of ' || %(user_id)s::uuid, 0))

-- name: await_turn
-- The same, but waits until no other transaction has them.
select pg_advisory_xact_lock(hashtextextended('summaries of ' || %(user_id)s::uuid, 0))

-- name: wait_longer
-- Sets the lock timeout of the transaction to just under the limit of a statement.
set local lock_timeout = '50s'

-- name: person
-- The person's time zone, and the first and the last day with sessions, those included whose sessions have been removed
-- because of their age: their summaries are computed from rollups. No row: the account is deleted.
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
                      ),
                      (
                          select min(least(first_app_at, first_coding_at))
                            from activity.removed_day
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
                      ),
                      (
                          select max(greatest(last_app_at, last_coding_at))
                            from activity.removed_day
                           where user_id = %(user_id)s
                      )
                  ) + interval '24 hours' as last_at
       ) as extent
 where person.user_id = %(user_id)s

-- name: zone
-- The person's time zone. No row: the account is deleted.
select timezone
  from identity.user
 where user_id = %(user_id)s

-- name: read_marks
-- Marked days after one date, in order, with the times of their marks. With :quiet, those that were marked within this
-- time are left out if each of their local days got a summary within :patience, as svc.people_with_summaries_due does. No lock is taken, so
-- no tracker waits during the computation. A mark is visible only when its transaction is committed, so the statements
-- after this one see the rows of that transaction.
select date,
       marked_at
  from (
           -- Beside row-level security, the planner uses no index for a comparison with a computed value;
           -- `offset` makes columns of them.
           select date,
                  marked_at,
                  (date::timestamp at time zone 'UTC' at time zone timezone)::date as first,
                  (
                      (date::timestamp + interval '23:59:59') at time zone 'UTC' at time zone timezone
                  )::date as last
             from activity.summary_due
             -- The marks of a deleted account are read, and removed.
             left join identity.user as person on person.user_id = %(user_id)s
            where summary_due.user_id = %(user_id)s
              and date > %(after)s::date
           offset 0
       ) as due
 where %(quiet)s::interval is null
    or marked_at <= now() - %(quiet)s::interval
    or not exists (
           select
             from activity.daily_summary as summary
            where summary.user_id = %(user_id)s
              and summary.date >= due.first
              and summary.date <= due.last
           having min(summary.generated_at) > now() - %(patience)s::interval
       )
 order by date
 limit %(limit)s::bigint

-- name: remove_marks
-- Removes the marks that were read, as the last statement of a transaction. A mark that has been set again since, or
-- is being set now, stays for the next turn: its change may not have been read.
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
-- `bounds`: the range of `requested`, extended at both ends to the next break of more than five minutes, by a week at
-- most. Switches and streaks never cross such a break, so those of this range equal those of the whole timeline. The
-- search for a break goes from session to session; in a dense timeline the session before already proves that there
-- is none, which is why that one is read first. The planner expects one row, so it may as well read and sort all
-- sessions of the range: without the bound, the whole history.
-- needs: requested (ends_at, starts_at)
-- gives: bounds (ends_at, starts_at)
bounds as (
    select coalesce(
               (
                   select session.started_at
                     from activity.app_session as session
                    where session.user_id = %(user_id)s
                      and session.started_at <= requested.starts_at
                      and session.started_at >= requested.starts_at - interval '7 days'
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
               requested.starts_at - interval '7 days'
           ) as starts_at,
           coalesce(
               (
                   select session.started_at
                     from activity.app_session as session
                    where session.user_id = %(user_id)s
                      and session.started_at >= requested.ends_at
                      and session.started_at <= requested.ends_at + interval '7 days'
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
               requested.ends_at + interval '7 days'
           ) as ends_at
      from requested
),

-- name: affected_days
-- The first and the last local day that sessions on these days of UTC may have changed: the days of sessions that
-- began on them, and those of the stretch without a break around them, which switches and streaks may cross. It is
-- limited to a week on each side; days further away in a longer stretch keep wrong summaries.
with requested as (
    select %(from)s::date::timestamp at time zone 'UTC' as starts_at,
           (%(to)s::date + 1)::timestamp at time zone 'UTC' as ends_at
),
--include unbroken
extent as (
    select case
               -- Not `exists`: with one plan for everybody, that would scan the table for a person without a match.
               when (
                        select true
                          from activity.app_session
                         where user_id = %(user_id)s
                           and started_at >= bounds.starts_at
                           and started_at < requested.starts_at
                           and ended_at > started_at
                           and ended_at >= requested.starts_at - interval '5 minutes'
                           and not idle
                         order by started_at desc
                         limit 1
                    )
                   then bounds.starts_at
               else requested.starts_at
           end as starts_at,
           bounds.ends_at
      from bounds
     cross join requested
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
                  and session.started_at >= (select starts_at from requested)
                  and session.started_at < (select ends_at from requested)
           ) as ended
)
select (extent.starts_at at time zone %(tz)s)::date as first,
       (
           greatest(requested.ends_at - interval '1 millisecond', newest.at) at time zone %(tz)s
       )::date as last
  from extent
 cross join requested
 cross join newest

-- name: days_whose_time_has_come
-- The days whose provisional summaries must now become final.
select date
  from activity.daily_summary
 where user_id = %(user_id)s
   and status = 'provisional'
   and final_at <= now()
 order by date

-- name: forget_days
-- Removes the summaries of a range of days, before they are computed again.
delete
  from activity.daily_summary
 where user_id = %(user_id)s
   and date between %(from)s and %(to)s

-- name: forget_other_days
-- Removes the summaries of all days outside a range.
delete
  from activity.daily_summary
 where user_id = %(user_id)s
   and date not between %(from)s and %(to)s

-- fragment: days
-- `slot`: the days to sum up.
-- gives: slot (date, ends_at, position, starts_at)
slot as (
    select n as position,
           date,
           starts_at,
           ends_at
      from svc.days(%(from)s, %(to)s, %(tz)s)
),

-- fragment: tops
-- `top`: the names with most time on each day, at most five of each kind. Needs `spent_on` (position, kind, name,
-- total_ms).
-- needs: spent_on (kind, name, position, total_ms)
-- gives: top (kind, position, rows)
top as (
    select position,
           kind,
           json_agg(json_build_object(kind, name, 'total_ms', total_ms) order by rank) as rows
      from (
               select *,
                      row_number() over (
                          partition by position, kind
                          order by total_ms desc, name collate "C"
                      ) as rank
                 from spent_on
                where total_ms > 0
           ) as ranked
     where rank <= 5
     group by position,
              kind
),

-- name: sum_app_time
-- The application time of days, a row for each day that has any.
with
--include days
--include spans
--include categories
--include rule_inputs_in_spans
--include decided_category
--include app_time
--include app_measures
spent_on as (
    select position,
           'app' as kind,
           app as name,
           sum(value) as total_ms
      from measure
     where metric = 'tracked_ms'
     group by position,
              app
     union all
    select position,
           'category',
           category,
           sum(value)
      from measure
     where metric = 'tracked_ms'
     group by position,
              category
),
--include tops
summed as (
    select position,
           coalesce(sum(value) filter (where metric = 'tracked_ms'), 0) as tracked_ms,
           coalesce(sum(value) filter (where metric = 'productive_ms'), 0) as productive_ms,
           coalesce(sum(value) filter (where metric = 'neutral_ms'), 0) as neutral_ms,
           coalesce(sum(value) filter (where metric = 'distracted_ms'), 0) as distracted_ms
      from measure
     group by position
),
day as (
    select slot.date,
           summed.tracked_ms,
           summed.productive_ms,
           summed.neutral_ms,
           summed.distracted_ms,
           app.rows as top_apps,
           category.rows as top_categories
      from summed
      join slot using (position)
      left join top as app
             on app.position = summed.position
            and app.kind = 'app'
      left join top as category
             on category.position = summed.position
            and category.kind = 'category'
)
select coalesce(json_agg(day), '[]')::text
  from day

-- name: sum_coding
-- The same for coding.
with
--include days
--include spans
--include runs
--include coding_time
spent_on as (
    select position,
           'project' as kind,
           project as name,
           sum(owned_ms) as total_ms
      from coding_spent
     group by position,
              project
),
--include tops
summed as (
    select position,
           coalesce(sum(total_ms), 0) as coding_ms
      from spent_on
     group by position
),
day as (
    select slot.date,
           summed.coding_ms,
           top.rows as top_projects
      from summed
      join slot using (position)
      left join top using (position)
)
select coalesce(json_agg(day), '[]')::text
  from day

-- name: sum_switches
-- The same for switches.
with
--include days
--include switched
day as (
    select slot.date,
           switched.app_switches
      from switched
      join slot using (position)
)
select coalesce(json_agg(day), '[]')::text
  from day

-- name: sum_focus
-- The same for streaks of focus.
with
--include days
--include categories
--include focused
day as (
    select slot.date,
           sum(focused.focus_ms)::bigint as focus_ms,
           max(focused.focus_ms) as longest_focus_ms
      from focused
      join slot using (position)
     group by slot.date
)
select coalesce(json_agg(day), '[]')::text
  from day

-- name: store_days
-- Stores the summaries of days on which something was measured, and answers these days.
with
--include days
app_time as (
    select *
      from json_to_recordset(%(app_time)s::json) as day (
               date            date,
               tracked_ms      bigint,
               productive_ms   bigint,
               neutral_ms      bigint,
               distracted_ms   bigint,
               top_apps        json,
               top_categories  json
           )
),
coding as (
    select *
      from json_to_recordset(%(coding)s::json) as day (date date, coding_ms bigint, top_projects json)
),
switches as (
    select *
      from json_to_recordset(%(switches)s::json) as day (date date, app_switches bigint)
),
focus as (
    select *
      from json_to_recordset(%(focus)s::json)
               as day (date date, focus_ms bigint, longest_focus_ms bigint)
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
       coalesce(app_time.tracked_ms, 0),
       coalesce(app_time.productive_ms, 0),
       coalesce(app_time.neutral_ms, 0),
       coalesce(app_time.distracted_ms, 0),
       coalesce(coding.coding_ms, 0),
       coalesce(switches.app_switches, 0),
       coalesce(focus.focus_ms, 0),
       coalesce(focus.longest_focus_ms, 0),
       coalesce(app_time.top_apps, '[]'),
       coalesce(app_time.top_categories, '[]'),
       coalesce(coding.top_projects, '[]')
  from slot
  left join app_time using (date)
  left join coding using (date)
  left join switches using (date)
  left join focus using (date)
 where slot.starts_at < slot.ends_at
   and coalesce(app_time.date, coding.date, switches.date, focus.date) is not null
returning date
