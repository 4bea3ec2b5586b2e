-- The rollups of a person's days and months, which a job of the worker computes from raw sessions (rollups.py). One
-- transaction is about one person, and begins with `begin_for`. Days and months are those of UTC.
--
-- A transaction that writes sessions marks their days afterwards; and this job locks the marks of the days that it
-- computes, in a statement before those that read sessions. So either a writer has committed before the lock was
-- granted, and the job reads its rows; or the writer waits with its mark, and sets a new one afterwards.

-- name: people_due
-- Up to :limit people who have marked days, in order of their ids, after one id (sql/functions/rollups.sql).
select svc.people_with_rollups_due(%(after)s, %(quiet)s, %(limit)s, %(version)s)

-- name: begin_for
-- Opens the transaction of a job for one person (sql/policies.sql).
call svc.open_job(%(user_id)s, %(version)s)

-- name: take_turn
-- Whether this transaction is the only one that writes the person's rollups; true reserves them until it ends.
select pg_try_advisory_xact_lock(hashtextextended('rollups of ' || %(user_id)s::uuid, 0))

-- name: await_turn
-- The same, but waits until no other transaction has them.
select pg_advisory_xact_lock(hashtextextended('rollups of ' || %(user_id)s::uuid, 0))

-- name: wait_longer
-- Sets the lock timeout of the transaction to just under the limit of a statement.
set local lock_timeout = '50s'

-- name: commit_soon
-- Lets the commit not wait for the disk. A transaction that is lost in a crash of the server has removed no mark
-- either, so its days are rolled up again.
set local synchronous_commit = off

-- name: take_longer
-- Raises the statement timeout of the transaction for commands that an operator runs.
set local statement_timeout = '10min'

-- name: mark_all_days
-- Marks all days of a person (sql/functions/rollups.sql).
select svc.mark_all_days(%(user_id)s)

-- name: take_marks
-- Marked days after one date, in order, whose marks are older than the quiet period, locked until the end of the
-- transaction. Marks that a writer holds are skipped, so the job never waits. Days whose sessions have been removed are
-- never computed again, whatever has marked them.
select date
  from activity.rollup_due
 where user_id = %(user_id)s
   and date > %(after)s
   and date >= coalesce((select removed_before from activity.raw_limit where user_id = %(user_id)s), '-infinity')
   and marked_at <= now() - %(quiet)s::interval
   and not is_left_raw
 order by date
 limit %(limit)s::bigint
   for update skip locked

-- name: put_off
-- Dates the marks that are older than the quiet period into the future, so that days that fail are not retried at
-- once.
update activity.rollup_due
   set marked_at = now() + %(while)s::interval
 where user_id = %(user_id)s
   and date = any (
           array(
               select date
                 from activity.rollup_due
                where user_id = %(user_id)s
                  and marked_at <= now() - %(quiet)s::interval
                  and not is_left_raw
                order by date
                  for update skip locked
           )
       )

-- name: may_be_crowded
-- Whether all sessions that may touch a range of days last longer than :most quarter-hours together. If not, they
-- cross at most :most quarter-hour boundaries in total.
select coalesce(
           (
               select sum(ended_at - started_at)
                 from activity.app_session
                where user_id = %(user_id)s
                  and started_at > %(from)s::date::timestamp at time zone 'UTC' - interval '24 hours'
                  and started_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
                  and not idle
           ),
           interval '0'
       ) + coalesce(
           (
               select sum(ended_at - started_at)
                 from activity.coding_session
                where user_id = %(user_id)s
                  and started_at > %(from)s::date::timestamp at time zone 'UTC' - interval '24 hours'
                  and started_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
           ),
           interval '0'
       ) > %(most)s * interval '15 minutes'

-- name: crowded_days
-- The days of a range on which sessions cross more than :most quarter-hour boundaries, and on average more than four
-- each. Many sessions then overlap, and computing their shares of each quarter-hour costs more than reading them.
select touched.date
  from (
           select started_at,
                  ended_at
             from activity.app_session
            where user_id = %(user_id)s
              and started_at > %(from)s::date::timestamp at time zone 'UTC' - interval '24 hours'
              and started_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
              and not idle
            union all
           select started_at,
                  ended_at
             from activity.coding_session
            where user_id = %(user_id)s
              and started_at > %(from)s::date::timestamp at time zone 'UTC' - interval '24 hours'
              and started_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
       ) as session
 cross join lateral (select (session.started_at at time zone 'UTC')::date) as first_day (date)
 cross join lateral (select (first_day.date + 1)::timestamp at time zone 'UTC') as midnight (at)
 cross join lateral (
           values (first_day.date, session.started_at, least(session.ended_at, midnight.at)),
                  (first_day.date + 1, midnight.at, session.ended_at)
       ) as touched (date, starts_at, ends_at)
 where touched.date between %(from)s and %(to)s
   and touched.starts_at < touched.ends_at
 group by touched.date
having sum(
           date_bin(
               '15 minutes',
               touched.ends_at - interval '1 millisecond',
               '2000-01-01 00:00:00+00'
           ) - date_bin('15 minutes', touched.starts_at, '2000-01-01 00:00:00+00')
       ) > (%(most)s + 4 * count(*)) * interval '15 minutes'
 order by touched.date

-- name: leave_raw
-- Records that marked days are left raw until they are marked again.
update activity.rollup_due
   set is_left_raw = true
 where user_id = %(user_id)s
   and date = any (%(dates)s::date[])

-- name: remove_marks
-- Removes the marks of days whose rollups are written.
delete
  from activity.rollup_due
 where user_id = %(user_id)s
   and date = any (%(dates)s::date[])

-- name: forget_days
-- Removes the rollups of consecutive days.
with forgotten_apps as (
    delete
      from activity.app_time
     where user_id = %(user_id)s
       and grain in (1, 2, 3)
       and starts_at >= %(from)s::date::timestamp at time zone 'UTC'
       and starts_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
),
forgotten_coding as (
    delete
      from activity.coding_time
     where user_id = %(user_id)s
       and grain in (1, 2, 3)
       and starts_at >= %(from)s::date::timestamp at time zone 'UTC'
       and starts_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
)
delete
  from activity.app_timeline
 where user_id = %(user_id)s
   and date between %(from)s and %(to)s

-- name: forget_month
-- Removes the rollups of one month.
with forgotten_apps as (
    delete
      from activity.app_time
     where user_id = %(user_id)s
       and grain = 4
       and starts_at = %(from)s::date::timestamp at time zone 'UTC'
)
delete
  from activity.coding_time
 where user_id = %(user_id)s
   and grain = 4
   and starts_at = %(from)s::date::timestamp at time zone 'UTC'

-- name: has_marks
-- Whether any day of a range is marked.
select exists (
           select
             from activity.rollup_due
            where user_id = %(user_id)s
              and date between %(from)s and %(to)s
       )

-- fragment: days_in_a_row
-- `day`: the start of each day of the range.
-- gives: day (starts_at)
day as (
    select %(from)s::date::timestamp at time zone 'UTC' + n * interval '24 hours' as starts_at
      from generate_series(0, %(to)s::date - %(from)s::date) as n
),

-- fragment: rule_inputs
-- `labelled`: the app sessions that may touch `day`, each with the first title rule that matches it; `label_key`
-- is the session's label in one text. `rule_inputs`: the distinct labels. Titles are matched as in the fragment
-- `decided_category`.
-- gives: labelled (app, category, domain, label_key, title_rule)
-- gives: rule_inputs (app, category, domain, label_key, title_rule)
session as (
    select app_session_id,
           app,
           title,
           domain,
           category,
           started_at,
           ended_at,
           idempotency_key,
           device_id
      from activity.app_session
     where user_id = %(user_id)s
           -- No session is longer than a day.
       and started_at > %(from)s::date::timestamp at time zone 'UTC' - interval '24 hours'
       and started_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
       and (
               started_at >= %(from)s::date::timestamp at time zone 'UTC'
               or ended_at > %(from)s::date::timestamp at time zone 'UTC'
           )
       and not idle
),
title_rule as (
    select category_rule_id,
           match,
           pattern,
           row_number() over (order by priority, category_rule_id) as position
      from activity.category_rule
     where user_id = %(user_id)s
       and field = 'title'
       and switched_off_at is null
),
title as materialized (
    select distinct title
      from session
     where title is not null
       and exists (select from title_rule)
),
title_ruled as (
    select jsonb_object_agg(title, category_rule_id) as by_title
      from (
               select distinct on (matched.title)
                      matched.title,
                      title_rule.category_rule_id
                 from title_rule
                cross join lateral (
                          select title.title
                            from title
                           where svc.matches(title.title, title_rule.match, title_rule.pattern)
                          offset 0
                      ) as matched
                order by matched.title,
                         title_rule.position
           ) as first_match
),
labelled as (
    select *,
           row (app, domain, category, title_rule)::text as label_key
      from (
               select session.*,
                      ((select by_title from title_ruled) ->> session.title)::uuid as title_rule
                 from session
           ) as ruled
),
rule_inputs as (
    select distinct label_key,
           app,
           domain,
           category,
           title_rule
      from labelled
),

-- fragment: quarter_rows
-- Sums of the sessions of `numbered`, which are numbered so that the owner of an instant comes last: `segment`, the
-- time that each session owns, and `quarter_row`, rows by quarter-hour and label: one for each session that crosses
-- the edge of the quarter-hour, and one for all other sessions together. Rollups of applications and of coding
-- consist of these.
-- needs: numbered (ended_at, ends_at, label, lines_added, lines_removed, n, session_id, started_at, starts_at)
-- gives: timeline (ends, sessions, starts)
-- gives: segment (ends_at, n, starts_at)
-- gives: quarter_row (began_at, continued, ended_at, first_at, label, last_at, lines_added, lines_removed,
--     longest_ms, owned_ms, session_id, started, starts_at)
timeline as (
    select array_agg(starts_at order by n) as starts,
           array_agg(ends_at order by n) as ends,
           array_agg(session_id order by n) as sessions
      from numbered
),
segment as (
    select segment.n,
           segment.starts_at,
           segment.ends_at
      from timeline
     cross join lateral svc.owned_segments(timeline.starts, timeline.ends) as segment
),
-- Each session once for every quarter in which it counts, and once for every part of one that it owns. Quarters
-- are a set in the select list, which costs less than a join because most sessions lie in one quarter.
piece as (
    select session.quarter as starts_at,
           session.n,
           session.label,
           (session.started_at >= session.quarter)::integer as started,
           case
               when session.started_at < session.quarter
                    or session.ended_at > session.quarter + interval '15 minutes'
                   then session.started_at
           end as began_at,
           case
               when session.started_at < session.quarter
                    or session.ended_at > session.quarter + interval '15 minutes'
                   then session.ended_at
           end as ended_at,
           case when session.started_at >= session.quarter then session.lines_added end as lines_added,
           case when session.started_at >= session.quarter then session.lines_removed end as lines_removed,
           null::timestamptz as first_at,
           null::timestamptz as last_at
      from (
               select *,
                      generate_series(
                          date_bin('15 minutes', starts_at, '2000-01-01 00:00:00+00'),
                          -- A session does not include its end.
                          greatest(ends_at - interval '1 millisecond', starts_at),
                          interval '15 minutes'
                      ) as quarter
                 from numbered
           ) as session
     union all
    select segment.quarter,
           segment.n,
           null,
           null,
           null,
           null,
           null,
           null,
           greatest(segment.starts_at, segment.quarter),
           least(segment.ends_at, segment.quarter + interval '15 minutes')
      from (
               select *,
                      generate_series(
                          date_bin('15 minutes', starts_at, '2000-01-01 00:00:00+00'),
                          ends_at - interval '1 millisecond',
                          interval '15 minutes'
                      ) as quarter
                 from segment
           ) as segment
),
per_session as (
    select starts_at,
           n,
           max(label) as label,
           max(started) as started,
           max(began_at) as began_at,
           max(ended_at) as ended_at,
           max(lines_added) as lines_added,
           max(lines_removed) as lines_removed,
           sum(last_at - first_at) as owned,
           min(first_at) as first_at,
           max(last_at) as last_at
      from piece
     group by starts_at,
              n
),
quarter_row as (
    select starts_at,
           label,
           coalesce(
               (select sessions from timeline)[own_n],
               '00000000-0000-0000-0000-000000000000'
           ) as session_id,
           sum(started)::integer as started,
           sum(1 - started)::integer as continued,
           max(began_at) filter (where own_n is not null) as began_at,
           max(ended_at) filter (where own_n is not null) as ended_at,
           svc.duration_ms(coalesce(sum(owned), interval '0')) as owned_ms,
           svc.duration_ms(coalesce(max(owned), interval '0')) as longest_ms,
           min(first_at) as first_at,
           max(last_at) as last_at,
           coalesce(sum(lines_added), 0) as lines_added,
           coalesce(sum(lines_removed), 0) as lines_removed
      from (
               select *,
                      case when owned is not null and began_at is not null then n end as own_n
                 from per_session
           ) as part
     group by starts_at,
              label,
              own_n
),

-- fragment: app_rollup
-- The rollups of the days of `day`: `app_quarter`, rows of activity.app_time, and `app_day`, rows of
-- activity.app_timeline. Needs the fragment `rule_inputs`; its labels must exist already.
--
-- A session that crosses midnight is split into one for each day, so one sweep serves all days. Sessions are
-- identified by their numbers in the order of the sweep. Values of a number are looked up in an array or added by
-- a union, and labels are looked up in a map: the planner has no statistics here, and could run a join as a nested
-- loop.
-- needs: day (starts_at)
-- needs: labelled (app, category, domain, label_key, title_rule)
-- needs: rule_inputs (app, category, domain, label_key, title_rule)
-- gives: app_quarter (began_at, continued, ended_at, first_at, label_id, last_at, longest_ms, owned_ms, session_id,
--     started, starts_at)
-- gives: app_day (date, ends, first_session, is_unbroken, labels, last_session, starts, switch_at, switch_before,
--     switch_from, switch_to)
known as (
    select jsonb_object_agg(numbered.label_key, numbered.n) as numbers,
           array_agg(label.label_id order by numbered.n) as labels,
           array_agg(numbered.app order by numbered.n) as apps
      from (
               select row_number() over (order by label_key collate "C") as n,
                      dense_rank() over (order by app collate "C")::integer as app,
                      app as name,
                      label_key,
                      domain,
                      category,
                      title_rule
                 from rule_inputs
           ) as numbered
      left join activity.label
             on label.user_id = %(user_id)s
            and label.app = numbered.name
            and label.domain is not distinct from numbered.domain
            and label.category is not distinct from numbered.category
            and label.title_rule is not distinct from numbered.title_rule
),
dated as (
    select *,
           date_bin('24 hours', started_at, '2000-01-01 00:00:00+00') as day
      from labelled
),
cut as (
    select *,
           started_at as starts_at,
           least(ended_at, day + interval '24 hours') as ends_at
      from dated
     where day = any (array(select starts_at from day))
     union all
    select *,
           day + interval '24 hours',
           ended_at
      from dated
     where ended_at > day + interval '24 hours'
       and day + interval '24 hours' = any (array(select starts_at from day))
),
numbered as (
    select row_number() over (
               order by session.starts_at,
--include owner_order
           )::integer as n,
           ((select numbers from known) -> session.label_key)::integer as label,
           session.app_session_id as session_id,
           null::bigint as lines_added,
           null::bigint as lines_removed,
           session.started_at,
           session.ended_at,
           session.starts_at,
           session.ends_at
      from cut as session
      join activity.device
        on device.user_id = %(user_id)s
       and device.device_id = session.device_id
),
--include quarter_rows
app_quarter as (
    select starts_at,
           (select labels from known)[label] as label_id,
           session_id,
           started,
           continued,
           began_at,
           ended_at,
           owned_ms,
           longest_ms,
           first_at,
           last_at
      from quarter_row
),
label_of_session as (
    select array_agg(label order by n) as labels
      from numbered
),
segment_of_day as (
    select day,
           (select labels from label_of_session)[n] as label,
           (select sessions from timeline)[n] as session_id,
           -- Not svc.duration_ms, for this is done for every segment and has to be fast.
           (date_part('epoch', starts_at - day) * 1000)::integer as starts_ms,
           (date_part('epoch', ends_at - day) * 1000)::integer as ends_ms
      from (
               select *,
                      date_bin('24 hours', starts_at, '2000-01-01 00:00:00+00') as day
                 from segment
           ) as dated_segment
),
-- A pause is more than five minutes, as it is for switches and streaks.
after_segment as (
    select *,
           starts_ms - lag(ends_ms, 1, 0) over (partition by day order by starts_ms) > 300000 as is_after_pause
      from segment_of_day
),
segments_of_day as (
    select day,
           array_agg((select labels from known)[label] order by starts_ms) as labels,
           array_agg((select apps from known)[label] order by starts_ms) as apps,
           array_agg(session_id order by starts_ms) as sessions,
           array_agg(starts_ms order by starts_ms) as starts,
           array_agg(ends_ms order by starts_ms) as ends,
           count(*) as count,
           not bool_or(is_after_pause) and 86400000 - max(ends_ms) <= 300000 as is_unbroken
      from after_segment
     group by day
),
app_day as (
    select (day at time zone 'UTC')::date as date,
           labels,
           starts,
           ends,
           sessions[1] as first_session,
           sessions[count] as last_session,
           is_unbroken,
           switches.at as switch_at,
           switches.froms as switch_from,
           switches.tos as switch_to,
           switches.before as switch_before
      from segments_of_day
     cross join lateral (
               select coalesce(array_agg(starts[at_position] order by n), '{}') as at,
                      coalesce(array_agg(labels[from_position] order by n), '{}') as froms,
                      coalesce(array_agg(labels[to_position] order by n), '{}') as tos,
                      coalesce(array_agg(before_ms order by n), '{}') as before
                 from (
                          select *,
                                 row_number() over (order by at_position) as n,
                                 count(*) over () as count
                            from svc.switches(starts::bigint[], ends::bigint[], apps)
                      ) as switch_of_day
                -- Segments outside the day can lengthen only its first and its last run. So runs are certain from
                -- the second to the last but one. The second switch comes after that at the earliest, and the last
                -- but one is at a run that ends in the day.
                where n > 1
                  and n < switch_of_day.count
           ) as switches
),

-- fragment: coding_rollup
-- The rollups of the days of `day` for coding: `coding_quarter`, rows of activity.coding_time.
-- needs: day (starts_at)
-- gives: coding_quarter (began_at, continued, ended_at, first_at, language, last_at, lines_added, lines_removed,
--     longest_ms, owned_ms, project, session_id, started, starts_at)
coding_dated as (
    select coding_session_id,
           project,
           language,
           file,
           lines_added,
           lines_removed,
           idempotency_key,
           device_id,
           started_at,
           ended_at,
           date_bin('24 hours', started_at, '2000-01-01 00:00:00+00') as day
      from activity.coding_session
     where user_id = %(user_id)s
       and started_at > %(from)s::date::timestamp at time zone 'UTC' - interval '24 hours'
       and started_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
       and (
               started_at >= %(from)s::date::timestamp at time zone 'UTC'
               or ended_at > %(from)s::date::timestamp at time zone 'UTC'
           )
),
coding_cut as (
    select *,
           started_at as starts_at,
           least(ended_at, day + interval '24 hours') as ends_at
      from coding_dated
     where day = any (array(select starts_at from day))
     union all
    select *,
           day + interval '24 hours',
           ended_at
      from coding_dated
     where ended_at > day + interval '24 hours'
       and day + interval '24 hours' = any (array(select starts_at from day))
),
numbered as (
    select row_number() over (
               order by session.starts_at,
--include coding_owner_order
           )::integer as n,
           array[session.project, coalesce(session.language, 'unknown')] as label,
           session.coding_session_id as session_id,
           session.lines_added,
           session.lines_removed,
           session.started_at,
           session.ended_at,
           session.starts_at,
           session.ends_at
      from coding_cut as session
      join activity.device
        on device.user_id = %(user_id)s
       and device.device_id = session.device_id
),
--include quarter_rows
coding_quarter as (
    select starts_at,
           label[1] as project,
           label[2] as language,
           session_id,
           started,
           continued,
           began_at,
           ended_at,
           owned_ms,
           longest_ms,
           first_at,
           last_at,
           lines_added,
           lines_removed
      from quarter_row
),

-- fragment: sum_rows
-- `sum_row`: the sums of the rows of `finer` in each slot, which consists of whole slots of the next finer grain. A
-- session that crosses the edge of a finer slot has rows of its own there, and has one here only if it crosses the
-- edge of this slot.
-- needs: finer (began_at, continued, ended_at, first_at, label, last_at, lines_added, lines_removed, longest_ms,
--     owned_ms, session_id, slot, started, starts_at)
-- gives: sum_row (began_at, continued, ended_at, first_at, label, last_at, lines_added, lines_removed, longest_ms,
--     owned_ms, session_id, started, starts_at)
finer_session as (
    select slot,
           label,
           session_id,
           sum(started) as started,
           coalesce(sum(continued) filter (where starts_at = slot), 0) as continued,
           max(began_at) as began_at,
           max(ended_at) as ended_at,
           sum(owned_ms) as owned_ms,
           sum(longest_ms) as longest_ms,
           min(first_at) as first_at,
           max(last_at) as last_at,
           sum(lines_added) as lines_added,
           sum(lines_removed) as lines_removed
      from finer
     group by slot,
              label,
              session_id,
              -- Rows of several sessions stay apart.
              case when began_at is null then starts_at end
),
sum_row as (
    select slot as starts_at,
           label,
           own_id as session_id,
           sum(started)::integer as started,
           sum(continued)::integer as continued,
           max(began_at) filter (where own_id = session_id) as began_at,
           max(ended_at) filter (where own_id = session_id) as ended_at,
           sum(owned_ms)::bigint as owned_ms,
           max(longest_ms)::bigint as longest_ms,
           min(first_at) as first_at,
           max(last_at) as last_at,
           sum(lines_added)::bigint as lines_added,
           sum(lines_removed)::bigint as lines_removed
      from (
               select *,
                      case
                          when began_at < slot or ended_at > slot + ('1 ' || %(unit)s::text)::interval then session_id
                          else '00000000-0000-0000-0000-000000000000'
                      end as own_id
                 from finer_session
           ) as part
     group by slot,
              label,
              own_id
    -- A session that began before the slot and owns time only in another row needs no row here.
    having sum(started) + sum(continued) + sum(owned_ms) > 0
),

-- fragment: app_sum
-- `app_sum`: rows of activity.app_time, as sums of those of the next finer grain, for a range of days that consists of
-- whole slots.
-- gives: app_sum (began_at, continued, ended_at, first_at, label_id, last_at, longest_ms, owned_ms, session_id,
--     started, starts_at)
finer as (
    select date_trunc(%(unit)s::text, starts_at, 'UTC') as slot,
           starts_at,
           label_id as label,
           session_id,
           started,
           continued,
           began_at,
           ended_at,
           owned_ms,
           longest_ms,
           first_at,
           last_at,
           null::bigint as lines_added,
           null::bigint as lines_removed
      from activity.app_time
     where user_id = %(user_id)s
       and grain = %(grain)s::smallint - 1
       and starts_at >= %(from)s::date::timestamp at time zone 'UTC'
       and starts_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
),
--include sum_rows
app_sum as (
    select starts_at,
           label as label_id,
           session_id,
           started,
           continued,
           began_at,
           ended_at,
           owned_ms,
           longest_ms,
           first_at,
           last_at
      from sum_row
),

-- fragment: coding_sum
-- `coding_sum`: the same rows of activity.coding_time.
-- gives: coding_sum (began_at, continued, ended_at, first_at, language, last_at, lines_added, lines_removed,
--     longest_ms, owned_ms, project, session_id, started, starts_at)
finer as (
    select date_trunc(%(unit)s::text, starts_at, 'UTC') as slot,
           starts_at,
           array[project, language] as label,
           session_id,
           started,
           continued,
           began_at,
           ended_at,
           owned_ms,
           longest_ms,
           first_at,
           last_at,
           lines_added,
           lines_removed
      from activity.coding_time
     where user_id = %(user_id)s
       and grain = %(grain)s::smallint - 1
       and starts_at >= %(from)s::date::timestamp at time zone 'UTC'
       and starts_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
),
--include sum_rows
coding_sum as (
    select starts_at,
           label[1] as project,
           label[2] as language,
           session_id,
           started,
           continued,
           began_at,
           ended_at,
           owned_ms,
           longest_ms,
           first_at,
           last_at,
           lines_added,
           lines_removed
      from sum_row
),

-- name: add_labels
-- Inserts the labels of sessions in a range of days that have no row in activity.label yet.
with
--include rule_inputs
new as (
    select app,
           domain,
           category,
           title_rule
      from rule_inputs
     where not exists (
               select
                 from activity.label
                where label.user_id = %(user_id)s
                  and label.app = rule_inputs.app
                  and label.domain is not distinct from rule_inputs.domain
                  and label.category is not distinct from rule_inputs.category
                  and label.title_rule is not distinct from rule_inputs.title_rule
           )
)
insert into activity.label (user_id, app, domain, category, title_rule)
select %(user_id)s,
       app,
       domain,
       category,
       title_rule
  from new
    on conflict do nothing

-- name: make_app_quarters
-- Inserts the quarters and the timelines of a range of days. Their labels exist already; no other rollups of them do.
with
--include days_in_a_row
--include rule_inputs
--include app_rollup
inserted_days as (
    insert into activity.app_timeline (
        user_id,
        date,
        labels,
        starts,
        ends,
        first_session,
        last_session,
        is_unbroken,
        switch_at,
        switch_from,
        switch_to,
        switch_before
    )
    select %(user_id)s,
           date,
           labels,
           starts,
           ends,
           first_session,
           last_session,
           is_unbroken,
           switch_at,
           switch_from,
           switch_to,
           switch_before
      from app_day
)
insert into activity.app_time (
    user_id,
    grain,
    starts_at,
    label_id,
    session_id,
    started,
    continued,
    began_at,
    ended_at,
    owned_ms,
    longest_ms,
    first_at,
    last_at
)
select %(user_id)s,
       1,
       starts_at,
       label_id,
       session_id,
       started,
       continued,
       began_at,
       ended_at,
       owned_ms,
       longest_ms,
       first_at,
       last_at
  from app_quarter
 order by starts_at,
          label_id,
          session_id

-- name: add_up_app
-- Inserts the rollups of a grain as sums of those of the next finer grain.
with
--include app_sum
in_order as (
    select *
      from app_sum
     order by starts_at,
              label_id,
              session_id
)
insert into activity.app_time (
    user_id,
    grain,
    starts_at,
    label_id,
    session_id,
    started,
    continued,
    began_at,
    ended_at,
    owned_ms,
    longest_ms,
    first_at,
    last_at
)
select %(user_id)s,
       %(grain)s,
       starts_at,
       label_id,
       session_id,
       started,
       continued,
       began_at,
       ended_at,
       owned_ms,
       longest_ms,
       first_at,
       last_at
  from in_order

-- name: make_coding_quarters
-- Inserts the quarters of coding for a range of days.
with
--include days_in_a_row
--include coding_rollup
in_order as (
    select *
      from coding_quarter
     order by starts_at,
              project,
              language,
              session_id
)
insert into activity.coding_time (
    user_id,
    grain,
    starts_at,
    project,
    language,
    session_id,
    started,
    continued,
    began_at,
    ended_at,
    owned_ms,
    longest_ms,
    first_at,
    last_at,
    lines_added,
    lines_removed
)
select %(user_id)s,
       1,
       starts_at,
       project,
       language,
       session_id,
       started,
       continued,
       began_at,
       ended_at,
       owned_ms,
       longest_ms,
       first_at,
       last_at,
       lines_added,
       lines_removed
  from in_order

-- name: add_up_coding
-- The same for coding.
with
--include coding_sum
in_order as (
    select *
      from coding_sum
     order by starts_at,
              project,
              language,
              session_id
)
insert into activity.coding_time (
    user_id,
    grain,
    starts_at,
    project,
    language,
    session_id,
    started,
    continued,
    began_at,
    ended_at,
    owned_ms,
    longest_ms,
    first_at,
    last_at,
    lines_added,
    lines_removed
)
select %(user_id)s,
       %(grain)s,
       starts_at,
       project,
       language,
       session_id,
       started,
       continued,
       began_at,
       ended_at,
       owned_ms,
       longest_ms,
       first_at,
       last_at,
       lines_added,
       lines_removed
  from in_order

-- name: forget_strays
-- Removes rollups of days, and of months, that have no mark. If every day with sessions is marked, this removes all
-- rollups without sessions and reads no session. A month with marks may be removed too if its first day has none: a
-- marked day rebuilds it. Rollups whose sessions have been removed stay.
with kept as materialized (
    select removed_before as before,
           removed_before::timestamp at time zone 'UTC' as before_at
      from (
               select coalesce(
                          (select removed_before from activity.raw_limit where user_id = %(user_id)s),
                          '-infinity'
                      ) as removed_before
           ) as known
),
marked as materialized (
    select date
      from activity.rollup_due
     where user_id = %(user_id)s
),
-- The gaps between marked days, before the first one and after the last one.
gap as (
    select coalesce(
               (lag(date) over (order by date) + 1)::timestamp at time zone 'UTC',
               '-infinity'
           ) as starts_at,
           date::timestamp at time zone 'UTC' as ends_at
      from (
               select date from marked
                union all
               select 'infinity'
           ) as edge
),
stray as materialized (
    select part.starts_at
      from gap
     cross join lateral (
               select starts_at
                 from activity.app_time
                where user_id = %(user_id)s
                  and grain in (1, 2, 3)
                  and starts_at >= gap.starts_at
                  and starts_at < gap.ends_at
                  and starts_at >= (select before_at from kept)
                union
               select starts_at
                 from activity.coding_time
                where user_id = %(user_id)s
                  and grain in (1, 2, 3)
                  and starts_at >= gap.starts_at
                  and starts_at < gap.ends_at
                  and starts_at >= (select before_at from kept)
           ) as part
     where gap.starts_at < gap.ends_at
     union
    select starts_at
      from (
               select starts_at
                 from activity.app_time
                where user_id = %(user_id)s
                  and grain = 4
                union
               select starts_at
                 from activity.coding_time
                where user_id = %(user_id)s
                  and grain = 4
           ) as month
     where (starts_at at time zone 'UTC')::date
           not in (select date_trunc('month', date::timestamp)::date from marked)
       and starts_at >= (select before_at from kept)
),
forgotten_apps as (
    delete
      from activity.app_time
     where user_id = %(user_id)s
       and grain in (1, 2, 3, 4)
       and starts_at = any (array(select starts_at from stray))
),
forgotten_coding as (
    delete
      from activity.coding_time
     where user_id = %(user_id)s
       and grain in (1, 2, 3, 4)
       and starts_at = any (array(select starts_at from stray))
)
delete
  from activity.app_timeline
 where user_id = %(user_id)s
   and date not in (select date from marked)
   and date >= (select before from kept)

-- name: forget_unused_labels
-- Removes labels that no rollup uses any more. It reads both tables once instead of looking up each label: there may
-- be a hundred thousand.
delete
  from activity.label
 where user_id = %(user_id)s
   and label_id = any (
           array(
               select label_id
                 from activity.label
                where user_id = %(user_id)s
               except
               select label_id
                 from activity.app_time
                where user_id = %(user_id)s
                  and grain = 3
           )
       )

-- name: extent
-- The first and the last day on which anything was measured or is rolled up; no row if there is none. An index
-- finds the edges of each grain.
select (
           least(sessions.first_at, apps.first_at, coding.first_at, days.first_at) at time zone 'UTC'
       )::date as first,
       (
           greatest(sessions.last_at, apps.last_at, coding.last_at, days.last_at) at time zone 'UTC'
       )::date as last
  from (
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
       ) as sessions
 cross join (
           select min(slot.first_at) as first_at,
                  max(slot.last_at) as last_at
             from generate_series(1, 4) as each (grain)
            cross join lateral (
                      select min(starts_at) as first_at,
                             max(starts_at) as last_at
                        from activity.app_time
                       where user_id = %(user_id)s
                         and grain = each.grain
                  ) as slot
       ) as apps
 cross join (
           select min(slot.first_at) as first_at,
                  max(slot.last_at) as last_at
             from generate_series(1, 4) as each (grain)
            cross join lateral (
                      select min(starts_at) as first_at,
                             max(starts_at) as last_at
                        from activity.coding_time
                       where user_id = %(user_id)s
                         and grain = each.grain
                  ) as slot
       ) as coding
 cross join (
           select min(date)::timestamp at time zone 'UTC' as first_at,
                  max(date)::timestamp at time zone 'UTC' as last_at
             from activity.app_timeline
            where user_id = %(user_id)s
       ) as days
 where coalesce(sessions.first_at, apps.first_at, coding.first_at, days.first_at) is not null

-- fragment: marked
-- `marked`: the days of the range whose rollups are out of date.
-- gives: marked (starts_at)
marked as (
    select date::timestamp at time zone 'UTC' as starts_at
      from activity.rollup_due
     where user_id = %(user_id)s
       and date between %(from)s and %(to)s
),

-- fragment: unmarked_days
-- `day`: the start of each other day of the range whose sessions have not been removed. Needs the fragment `marked`.
-- needs: marked (starts_at)
-- gives: day (starts_at)
day as (
    select at as starts_at
      from generate_series(
               %(from)s::date::timestamp at time zone 'UTC',
               %(to)s::date::timestamp at time zone 'UTC',
               interval '24 hours'
           ) as at
     where at not in (select starts_at from marked)
       and at >= coalesce(
               (
                   select removed_before::timestamp at time zone 'UTC'
                     from activity.raw_limit
                    where user_id = %(user_id)s
               ),
               '-infinity'
           )
),

-- fragment: differences
-- Where `stored` and `expected` rows (key, row) differ: the whole row if only one of them has it, else each column
-- that differs. At most :most rows are reported.
-- needs: expected (key, row)
-- needs: stored (key, row)
difference as (
    select key,
           stored.row as stored,
           expected.row as expected
      from stored
      full join expected using (key)
     where stored.row is distinct from expected.row
     order by key ->> 'at',
              key::text collate "C"
     limit %(most)s
)
select difference.key ->> 'at' as at,
       (difference.key ->> 'grain')::integer as grain,
       coalesce(label.app, difference.key ->> 'project') as name,
       coalesce(label.domain, difference.key ->> 'language') as detail,
       nullif(difference.key ->> 'session_id', '00000000-0000-0000-0000-000000000000') as session_id,
       part.column,
       part.stored,
       part.expected
  from difference
  left join activity.label
         on label.user_id = %(user_id)s
        and label.label_id = (difference.key ->> 'label_id')::bigint
 cross join lateral (
           select null as column,
                  difference.stored::text as stored,
                  difference.expected::text as expected
            where difference.stored is null
               or difference.expected is null
            union all
           select name,
                  difference.stored ->> name,
                  difference.expected ->> name
             from jsonb_object_keys(difference.stored) as name
            where difference.expected is not null
              and difference.stored -> name is distinct from difference.expected -> name
       ) as part
 order by difference.key ->> 'at',
          difference.key::text collate "C",
          part.column

-- name: check_app_quarters
-- Differences between the stored quarters and timelines of a range of days and those computed from sessions.
with
--include marked
--include unmarked_days
--include rule_inputs
--include app_rollup
expected as (
    select jsonb_build_object(
               'table', 'app_time',
               'grain', 1,
               'at', svc.instant(starts_at),
               'label_id', label_id,
               'session_id', session_id
           ) as key,
           to_jsonb(app_quarter) as row
      from app_quarter
     union all
    select jsonb_build_object('table', 'app_timeline', 'at', date),
           to_jsonb(app_day)
      from app_day
),
stored as (
    select jsonb_build_object(
               'table', 'app_time',
               'grain', 1,
               'at', svc.instant(starts_at),
               'label_id', label_id,
               'session_id', session_id
           ) as key,
           to_jsonb(app_time) - 'user_id' - 'grain' as row
      from activity.app_time
     where user_id = %(user_id)s
       and grain = 1
       and starts_at >= %(from)s::date::timestamp at time zone 'UTC'
       and starts_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
       and date_bin('24 hours', starts_at, '2000-01-01 00:00:00+00') = any (array(select starts_at from day))
     union all
    select jsonb_build_object('table', 'app_timeline', 'at', date),
           to_jsonb(app_timeline) - 'user_id' - 'computed_at'
      from activity.app_timeline
     where user_id = %(user_id)s
       and date between %(from)s and %(to)s
       and date::timestamp at time zone 'UTC' = any (array(select starts_at from day))
),
--include differences

-- name: check_app_sums
-- Differences between the stored slots of a grain and the sums of the next finer grain; slots with a marked day are
-- left out.
with
--include marked
--include app_sum
expected as (
    select jsonb_build_object(
               'table', 'app_time',
               'grain', %(grain)s::integer,
               'at', svc.instant(starts_at),
               'label_id', label_id,
               'session_id', session_id
           ) as key,
           to_jsonb(app_sum) as row
      from app_sum
     where not exists (
               select
                 from marked
                where marked.starts_at < app_sum.starts_at + ('1 ' || %(unit)s::text)::interval
                  and marked.starts_at + interval '24 hours' > app_sum.starts_at
           )
),
stored as (
    select jsonb_build_object(
               'table', 'app_time',
               'grain', grain,
               'at', svc.instant(starts_at),
               'label_id', label_id,
               'session_id', session_id
           ) as key,
           to_jsonb(app_time) - 'user_id' - 'grain' as row
      from activity.app_time
     where user_id = %(user_id)s
       and grain = %(grain)s::smallint
       and starts_at >= %(from)s::date::timestamp at time zone 'UTC'
       and starts_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
       and not exists (
               select
                 from marked
                where marked.starts_at < app_time.starts_at + ('1 ' || %(unit)s::text)::interval
                  and marked.starts_at + interval '24 hours' > app_time.starts_at
           )
),
--include differences

-- name: check_coding_quarters
-- Differences between the stored quarters of a range of days and those computed from coding sessions.
with
--include marked
--include unmarked_days
--include coding_rollup
expected as (
    select jsonb_build_object(
               'table', 'coding_time',
               'grain', 1,
               'at', svc.instant(starts_at),
               'project', project,
               'language', language,
               'session_id', session_id
           ) as key,
           to_jsonb(coding_quarter) as row
      from coding_quarter
),
stored as (
    select jsonb_build_object(
               'table', 'coding_time',
               'grain', 1,
               'at', svc.instant(starts_at),
               'project', project,
               'language', language,
               'session_id', session_id
           ) as key,
           to_jsonb(coding_time) - 'user_id' - 'grain' as row
      from activity.coding_time
     where user_id = %(user_id)s
       and grain = 1
       and starts_at >= %(from)s::date::timestamp at time zone 'UTC'
       and starts_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
       and date_bin('24 hours', starts_at, '2000-01-01 00:00:00+00') = any (array(select starts_at from day))
),
--include differences

-- name: check_coding_sums
-- The same for slots of coding.
with
--include marked
--include coding_sum
expected as (
    select jsonb_build_object(
               'table', 'coding_time',
               'grain', %(grain)s::integer,
               'at', svc.instant(starts_at),
               'project', project,
               'language', language,
               'session_id', session_id
           ) as key,
           to_jsonb(coding_sum) as row
      from coding_sum
     where not exists (
               select
                 from marked
                where marked.starts_at < coding_sum.starts_at + ('1 ' || %(unit)s::text)::interval
                  and marked.starts_at + interval '24 hours' > coding_sum.starts_at
           )
),
stored as (
    select jsonb_build_object(
               'table', 'coding_time',
               'grain', grain,
               'at', svc.instant(starts_at),
               'project', project,
               'language', language,
               'session_id', session_id
           ) as key,
           to_jsonb(coding_time) - 'user_id' - 'grain' as row
      from activity.coding_time
     where user_id = %(user_id)s
       and grain = %(grain)s::smallint
       and starts_at >= %(from)s::date::timestamp at time zone 'UTC'
       and starts_at < (%(to)s::date + 1)::timestamp at time zone 'UTC'
       and not exists (
               select
                 from marked
                where marked.starts_at < coding_time.starts_at + ('1 ' || %(unit)s::text)::interval
                  and marked.starts_at + interval '24 hours' > coding_time.starts_at
           )
),
--include differences

-- name: attention_is_due
-- When the person's spans were marked; no row: nothing is to be made.
select marked_at
  from activity.attention_due
 where user_id = %(user_id)s
   and marked_at <= now()

-- name: mark_attention
-- Marks the spans of a person because consecutive days have been made, if a span that is over contains one of them or
-- was made of one, or if none has been made of the last sixth of a month that is over and has timelines, or if one was
-- made by older code, without streaks. Today changes all the time and is in none.
insert into activity.attention_due (user_id)
select %(user_id)s
  from (
           select month.first + 5 * n as open_from,
                  case n
                      when 0 then (month.first - interval '1 month')::date + 25
                      else month.first + 5 * n - 5
                  end as over_from
             from (select (now() at time zone 'UTC')::date as date) as now_in
            cross join lateral (select date_trunc('month', now_in.date::timestamp)::date as first) as month
            cross join lateral (select least((now_in.date - month.first) / 5, 5) as n) as past
       ) as sixth
 where %(from)s::date < sixth.open_from
    or exists (
           select
             from activity.attention
            where user_id = %(user_id)s
              and read_first <= %(to)s
              and read_last >= %(from)s
       )
    or exists (
           select
             from activity.app_timeline
            where user_id = %(user_id)s
              and date between sixth.over_from and sixth.open_from - 1
       )
       and not exists (
               select
                 from activity.attention
                where user_id = %(user_id)s
                  and first = sixth.over_from
                  and last = sixth.open_from - 1
           )
    or exists (select from activity.attention where user_id = %(user_id)s and streak_started is null)
    on conflict (user_id) do update
   set marked_at = greatest(now(), attention_due.marked_at + interval '1 microsecond')
returning true

-- name: put_off_attention
-- Dates the mark of a person's spans into the future.
update activity.attention_due
   set marked_at = now() + %(while)s::interval
 where user_id = %(user_id)s

-- name: take_attention
-- When the person's spans were marked, locked until the end of the transaction; no row: they are not, or another
-- transaction marks them now.
select marked_at
  from activity.attention_due
 where user_id = %(user_id)s
   and marked_at <= now()
   for update skip locked

-- fragment: current_spans
-- `current_span`: the spans that are made of the timelines and rules of now. Materialized, because the planner would
-- examine all spans again for each part of a quarter.
-- needs: rules_digest (text)
-- gives: current_span (first, last)
current_span as materialized (
    select first,
           last
      from activity.attention
     where user_id = %(user_id)s
       and rules = (select text from rules_digest)
       and read_computed_at = array(
               select computed_at
                 from activity.app_timeline
                where user_id = %(user_id)s
                  and date between attention.read_first and attention.read_last
                order by date
           )
),

-- name: spans_due
-- Up to :limit spans before one, the newest first, that are over, have timelines, and are missing or cannot be used any
-- more. Spans with a marked day, or one beside them, are left out: their days are made first. So are spans beside two days
-- without a pause, as trackers that notice no pause report them: such a span would be made of all days up to a pause, and
-- be made again after a write to any of them. One whose last day ends with use in its last five minutes waits while today
-- would be among the days that it is made of: it would be made again after each write.
with
--include categories
--include rules_digest
--include current_spans
extent as (
    select min(date) as first,
           max(date) as last
      from activity.app_timeline
     where user_id = %(user_id)s
)
select part.first,
       part.last
  from extent
 cross join lateral generate_series(
           date_trunc('quarter', extent.first::timestamp),
           extent.last::timestamp,
           interval '3 months'
       ) as quarter (at)
 cross join lateral (
           select quarter.at::date as first,
                  (quarter.at + interval '3 months')::date - 1 as last
            union all
           select part.first,
                  part.last
             from generate_series(0, 2) as n
            cross join lateral (select quarter.at + n * interval '1 month' as at) as month
            cross join lateral (
                      values (month.at::date, (month.at + interval '1 month')::date - 1),
                             (month.at::date, month.at::date + 4),
                             (month.at::date + 5, month.at::date + 9),
                             (month.at::date + 10, month.at::date + 14),
                             (month.at::date + 15, month.at::date + 19),
                             (month.at::date + 20, month.at::date + 24),
                             (month.at::date + 25, (month.at + interval '1 month')::date - 1)
                  ) as part (first, last)
       ) as part
 where part.last < (now() at time zone 'UTC')::date
   and (part.last, part.first) < (%(before_last)s::date, %(before_first)s::date)
   and not exists (
           select
             from activity.rollup_due
            where user_id = %(user_id)s
              and date between part.first - 1 and part.last + 1
       )
   and exists (
           select
             from activity.app_timeline
            where user_id = %(user_id)s
              and date between part.first and part.last
           offset 0
       )
   and not exists (
           select
             from (values (part.first - 2), (part.last + 1)) as beside (date)
            where (
                      select count(*)
                        from activity.app_timeline
                       where user_id = %(user_id)s
                         and date between beside.date and beside.date + 1
                         and is_unbroken
                  ) = 2
       )
   and not exists (
           select
             from activity.app_timeline as ended
            cross join lateral (select (now() at time zone 'UTC')::date as date) as today
            where ended.user_id = %(user_id)s
              and ended.date = part.last
              and ended.ends[cardinality(ended.ends)] >= 86100000
              and (
                      part.last = today.date - 1
                      or part.last = today.date - 2
                      and exists (
                              select
                                from activity.app_timeline
                               where user_id = %(user_id)s
                                 and date = part.last + 1
                                 and is_unbroken
                          )
                  )
       )
   and (part.first, part.last) not in (select first, last from current_span)
 order by part.last desc,
          part.first desc
 limit %(limit)s::bigint

-- name: forget_span
-- Removes a span.
delete
  from activity.attention
 where user_id = %(user_id)s
   and first = %(from)s
   and last = %(to)s

-- name: forget_outdated_spans
-- Removes all spans that cannot be used, after those that are due have been made: they have names of applications whose
-- sessions may be gone.
with
--include categories
--include rules_digest
--include current_spans
outdated as (
    select first,
           last
      from activity.attention
     where user_id = %(user_id)s
    except
    select first,
           last
      from current_span
)
delete
  from activity.attention
 where user_id = %(user_id)s
   and (first, last) in (select first, last from outdated)

-- name: remove_attention_mark
-- Removes the mark of a person whose spans are made, if it is the one that was seen before.
delete
  from activity.attention_due
 where user_id = %(user_id)s
   and marked_at = %(marked_at)s

-- fragment: span_days
-- `requested`: the days of a span. Days beside it are read as far as a switch, a detour or a streak may last.
-- gives: requested (ends_at, starts_at)
-- gives: requested_ms (ends, starts)
-- gives: reach (first, last)
-- gives: marked_day (date)
-- gives: marked_session (app, app_session_id, category, domain, ends_at, n, starts_at, title)
-- gives: timeline_day (count, date, date_ms, ends, first_session, is_continued, labels, last_end, last_session,
--     starts, switch_at, switch_before, switch_from, switch_to)
requested as (
    select %(from)s::date::timestamp at time zone 'UTC' as starts_at,
           (%(to)s::date + 1)::timestamp at time zone 'UTC' as ends_at
),
requested_ms as (
    select (extract(epoch from starts_at) * 1000)::bigint as starts,
           (extract(epoch from ends_at) * 1000)::bigint as ends
      from requested
),
--include reach_of_streaks
--include timeline_days

-- fragment: span_row
-- `span_row`: the row of activity.attention for a span of days, without its streaks and detours; none if a day that it
-- needs is marked.
-- gives: span_row (before, first, labels, last, read_first, read_last, read_computed_at, switch_before, switch_count,
--     switch_from, switch_last, switch_ms, switch_to, tracked_ms)
--include span_days
kept as (
    select '{}'::bigint[] as labels
),
--include labels_in_kept_days
label_map as (
    select array_agg(label_id order by label_id) as ids,
           array_agg(app_number order by label_id) as apps,
           array_agg(app_label order by label_id) as app_labels
      from (
               select label_id,
                      dense_rank() over (order by app collate "C")::integer as app_number,
                      min(label_id) over (partition by app) as app_label
                 from used_label
           ) as numbered
),
--include walked_segments
--include walked_switches
--include switches
-- One label stands for each application.
pair as materialized (
    select from_label,
           to_label,
           count(*)::integer as count,
           sum(before_ms)::bigint as before_ms,
           array_agg(before_ms order by before_ms) as sorted,
           (sum(count(*)) over (order by from_label, to_label))::integer as last
      from (
               select (select app_labels from label_map)[width_bucket(from_label, (select ids from label_map))]
                          as from_label,
                      (select app_labels from label_map)[width_bucket(to_label, (select ids from label_map))]
                          as to_label,
                      before_ms
                 from switch
                cross join requested_ms
                where at_ms >= requested_ms.starts
                  and at_ms < requested_ms.ends
           ) as switch_of_apps
     group by from_label,
              to_label
),
span_row as (
    select %(from)s::date as first,
           %(to)s::date as last,
           reach.first as read_first,
           reach.last as read_last,
           array(
               select computed_at
                 from activity.app_timeline
                where user_id = %(user_id)s
                  and date between reach.first and reach.last
                order by date
           ) as read_computed_at,
           coalesce((select ids from label_map), '{}') as labels,
           (
               select coalesce(sum(segment.ends_ms - segment.starts_ms), 0)::bigint
                 from timeline_day as day
                cross join lateral unnest(day.starts, day.ends) as segment (starts_ms, ends_ms)
                where day.date between %(from)s and %(to)s
           ) as tracked_ms,
           array(select from_label from pair order by last) as switch_from,
           array(select to_label from pair order by last) as switch_to,
           array(select count from pair order by last) as switch_count,
           array(select before_ms from pair order by last) as switch_ms,
           array(select last from pair order by last) as switch_last,
           array(
               select unnest(sorted)
                 from (select sorted from pair order by last) as pair_in_order
           ) as switch_before,
           array(select unnest(sorted) as value from pair order by value) as before
      from reach
     where not exists (select from marked_day)
),

-- fragment: span_detours
-- `span_detours`: the columns of activity.attention about detours for a span of days; no row if a day that they need is
-- marked.
-- gives: span_detours (away, detour_away, detour_count, detour_label, detour_last, detour_ms, detour_returned, rules)
--include span_days
--include categories
--include rules_digest
--include rule_inputs_in_days
--include decided_category
--include decided_labels
--include placed_segments
--include detours
-- One label stands for each application and category.
standing as materialized (
    select array_agg(place_label order by label_id) as labels
      from (
               select label_id,
                      min(label_id) over (partition by app, known_as) as place_label
                 from decided_category
           ) as known_label
),
part as materialized (
    select label_id,
           count(*)::integer as count,
           count(away_ms)::integer as returned_count,
           coalesce(sum(away_ms), 0)::bigint as away_ms,
           array_agg(away_ms order by away_ms) filter (where away_ms is not null) as sorted,
           (sum(count(away_ms)) over (order by label_id))::integer as last
      from (
               select (select labels from standing)[place] as label_id,
                      away_ms
                 from detour
                cross join requested_ms
                where began_ms >= requested_ms.starts
                  and began_ms < requested_ms.ends
           ) as detour_of_label
     group by label_id
),
span_detours as (
    select array(select label_id from part order by label_id) as detour_label,
           array(select count from part order by label_id) as detour_count,
           array(select returned_count from part order by label_id) as detour_returned,
           array(select away_ms from part order by label_id) as detour_ms,
           array(select last from part order by label_id) as detour_last,
           array(
               select unnest(sorted)
                 from (select sorted from part order by label_id) as part_in_order
           ) as detour_away,
           array(select unnest(sorted) as value from part order by value) as away,
           rules_digest.text as rules
      from rules_digest
     where not exists (select from marked_day)
),

-- fragment: span_streaks
-- `span_streaks`: the columns of activity.attention about streaks of focus for a span of days, and the digest of rules that
-- they were computed with; no row if a day that they need is marked.
-- gives: span_streaks (rules, streak_apps, streak_breaker_app, streak_breaker_category, streak_broken, streak_ended,
--     streak_gap, streak_productive, streak_reason, streak_started, streak_top_app, streak_top_category)
--include span_days
--include categories
--include rules_digest
--include rule_inputs_in_days
--include decided_category
--include decided_labels
--include walked_streaks
listed_streak as materialized (
    select walked_streak.*
      from walked_streak
     cross join requested_ms
     where started_ms >= requested_ms.starts
       and started_ms < requested_ms.ends
),
--include use_in_streaks
span_streaks as (
    select coalesce(array_agg(started_ms order by started_ms), '{}') as streak_started,
           coalesce(array_agg(ended_ms order by started_ms), '{}') as streak_ended,
           coalesce(array_agg(known_reason order by started_ms), '{}') as streak_reason,
           coalesce(array_agg(broken_ms order by started_ms), '{}') as streak_broken,
           coalesce(array_agg(known_gap_ms order by started_ms), '{}') as streak_gap,
           coalesce(
               array_agg((select apps from names)[(select apps from label_map)[breaker.place]] order by started_ms),
               '{}'
           ) as streak_breaker_app,
           coalesce(
               array_agg(
                   (select categories from names)[(select categories from label_map)[breaker.place]] order by started_ms
               ),
               '{}'
           ) as streak_breaker_category,
           coalesce(array_agg(productive_ms order by started_ms), '{}') as streak_productive,
           coalesce(array_agg(top_app order by started_ms), '{}') as streak_top_app,
           coalesce(array_agg(top_category order by started_ms), '{}') as streak_top_category,
           coalesce(array_agg(app_count::integer order by started_ms), '{}') as streak_apps,
           (select text from rules_digest) as rules
      from listed_streak
      join use_in_streak using (started_ms)
     cross join lateral width_bucket(breaker_label, (select ids from label_map)) as breaker (place)
    having not exists (select from marked_day)
),

-- fragment: stored_by_rules
-- `stored`: the columns of `computed` as they are stored for a span of days, if it can be used with the same rules.
-- `expected`: the same as they should be.
-- needs: computed (rules)
-- gives: expected (key, row)
-- gives: stored (key, row)
stored as (
    select jsonb_build_object('grain', 0, 'at', attention.first || ' to ' || attention.last) as key,
           jsonb_object_agg(stored_column.key, stored_column.value) as row
      from activity.attention
      join computed using (rules)
     cross join lateral jsonb_each(to_jsonb(attention)) as stored_column (key, value)
     where attention.user_id = %(user_id)s
       and attention.first = %(from)s
       and attention.last = %(to)s
       and attention.read_computed_at = array(
               select computed_at
                 from activity.app_timeline
                where user_id = %(user_id)s
                  and date between attention.read_first and attention.read_last
                order by date
           )
       and to_jsonb(computed) ? stored_column.key
     group by attention.first,
              attention.last
),
expected as (
    select stored.key,
           to_jsonb(computed) as row
      from computed
     cross join stored
),

-- name: make_span
-- Inserts a span of days, of which nothing is kept, without its streaks and detours; nothing if a day that it needs is
-- marked.
with recursive
--include span_row
row as (
    select *
      from span_row
)
insert into activity.attention (
    user_id,
    first,
    last,
    read_first,
    read_last,
    read_computed_at,
    labels,
    tracked_ms,
    switch_from,
    switch_to,
    switch_count,
    switch_ms,
    switch_last,
    switch_before,
    before
)
select %(user_id)s,
       first,
       last,
       read_first,
       read_last,
       read_computed_at,
       labels,
       tracked_ms,
       switch_from,
       switch_to,
       switch_count,
       switch_ms,
       switch_last,
       switch_before,
       before
  from row

-- name: add_streaks
-- Adds the streaks of focus of a span that has been inserted. No reader knows the digest that it notes, because the span
-- cannot be used without its detours: these are missing if a day is marked before they are added.
with recursive
--include span_streaks
row as (
    select *
      from span_streaks
)
update activity.attention
   set streak_started = row.streak_started,
       streak_ended = row.streak_ended,
       streak_reason = row.streak_reason,
       streak_broken = row.streak_broken,
       streak_gap = row.streak_gap,
       streak_breaker_app = row.streak_breaker_app,
       streak_breaker_category = row.streak_breaker_category,
       streak_productive = row.streak_productive,
       streak_top_app = row.streak_top_app,
       streak_top_category = row.streak_top_category,
       streak_apps = row.streak_apps,
       rules = 'streaks by ' || row.rules
  from row
 where attention.user_id = %(user_id)s
   and attention.first = %(from)s
   and attention.last = %(to)s

-- name: add_detours
-- Adds the detours of a span whose streaks have been added. If the rules have changed since, the span cannot be used, and
-- the mark that the change has set makes it again.
with recursive
--include span_detours
row as (
    select *
      from span_detours
)
update activity.attention
   set detour_label = row.detour_label,
       detour_count = row.detour_count,
       detour_returned = row.detour_returned,
       detour_ms = row.detour_ms,
       detour_last = row.detour_last,
       detour_away = row.detour_away,
       away = row.away,
       rules = case when attention.rules = 'streaks by ' || row.rules then row.rules else '' end
  from row
 where attention.user_id = %(user_id)s
   and attention.first = %(from)s
   and attention.last = %(to)s

-- name: spans
-- All spans of a person that begin in a range of days.
select first,
       last
  from activity.attention
 where user_id = %(user_id)s
   and first between %(from)s and %(to)s
 order by first,
          last

-- name: check_span
-- Differences between the switches of a span, if it can be used, and those of its days.
with recursive
--include span_row
computed as materialized (
    select *
      from span_row
),
stored as (
    select jsonb_build_object('grain', 0, 'at', computed.first || ' to ' || computed.last) as key,
           jsonb_object_agg(stored_column.key, stored_column.value) as row
      from activity.attention
      join computed using (first, last, read_computed_at)
     cross join lateral jsonb_each(to_jsonb(attention)) as stored_column (key, value)
     where attention.user_id = %(user_id)s
       and to_jsonb(computed) ? stored_column.key
     group by computed.first,
              computed.last
),
expected as (
    select jsonb_build_object('grain', 0, 'at', computed.first || ' to ' || computed.last) as key,
           to_jsonb(computed) as row
      from computed
     where exists (select from stored)
),
--include differences

-- name: check_streaks
-- The same for streaks of focus.
with recursive
--include span_streaks
computed as materialized (
    select *
      from span_streaks
),
--include stored_by_rules
--include differences

-- name: check_detours
-- The same for detours.
with recursive
--include span_detours
computed as materialized (
    select *
      from span_detours
),
--include stored_by_rules
--include differences
