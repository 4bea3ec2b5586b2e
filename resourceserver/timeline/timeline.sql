-- Fragments that statements about activity share: the decision for a category, sums of days, hours and other slots,
-- and the pages of a list.
--
-- A statement with sums defines `slot` and includes `spans`, `categories`, `rule_inputs_in_spans`, `decided_category`
-- and `app_time`, in this order, or `spans`, `runs` and `coding_time`. It reads rollups where they are valid and
-- sessions elsewhere, in one statement and so in one snapshot.

-- fragment: categories
-- The caller's category rules and the scores of categories.
-- gives: rule (category, category_rule_id, field, match, pattern, position)
-- gives: score (category, score)
--include rules
--include scores

-- fragment: rules
-- `rule`: the caller's own category rules.
-- gives: rule (category, category_rule_id, field, match, pattern, position)
rule as (
    select category_rule_id,
           field,
           match,
           pattern,
           category,
           row_number() over (order by priority, category_rule_id) as position
      from activity.category_rule
     where user_id = %(user_id)s
       and switched_off_at is null
),

-- fragment: scores
-- `score`: the score of each category, the caller's own before the service's default. A category without a row
-- scores 0.
-- gives: score (category, score)
own_score as (
    select category,
           score
      from activity.category_score
     where user_id = %(user_id)s
),
score as (
    select category,
           score
      from own_score
     union all
    select category,
           score
      from reference.category
     where category not in (select category from own_score)
),

-- fragment: given_slots
-- `slot`: those that a statement before this one has found.
-- gives: slot (ends_at, position, starts_at)
slot as (
    select n::integer as position,
           starts_at,
           ends_at
      from unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[])
               with ordinality as given (starts_at, ends_at, n)
),

-- fragment: spans
-- `span`: the pieces of each `slot` (svc.cover): spans of grain 0, for which sessions are read, and runs of
-- whole quarters of an hour, hours, days or months, for which rollups are read. `raw_span`: spans of grain 0, each
-- with the end of the one before. Needs `slot` (position, starts_at, ends_at), numbered from 1 in order of time
-- without overlaps.
-- needs: slot (ends_at, position, starts_at)
-- gives: slots (ends, starts)
-- gives: span (ends_at, grain, is_first, position, starts_at)
-- gives: raw_span (before_ends_at, ends_at, is_first, position, starts_at)
-- gives: raw_spans (are_first, ends, positions, starts)
--include slots
raw_days as (
    select
--include due_dates
               as dates
      from slots
),
--include spans_over_raw_days

-- fragment: slots
-- `slots`: the edges of each `slot`.
-- needs: slot (ends_at, position, starts_at)
-- gives: slots (ends, starts)
slots as (
    select array_agg(starts_at order by position) as starts,
           array_agg(ends_at order by position) as ends
      from slot
),

-- fragment: due_days
-- The same, and `due_days`: the days between the first and the last slot whose rollups are out of date.
-- needs: slot (ends_at, position, starts_at)
-- gives: slots (ends, starts)
-- gives: due_days (dates)
--include slots
due_days as (
    select
--include due_dates
               as dates
      from slots
),

-- fragment: due_dates
-- The days between the first and the last of `slots` whose rollups are out of date, as an array.
array(
    select date
      from activity.rollup_due
     where user_id = %(user_id)s
       and date >= (slots.starts[1] at time zone 'UTC')::date
       and date <= (slots.ends[cardinality(slots.ends)] at time zone 'UTC')::date
     order by date
)

-- fragment: spans_over_raw_days
-- The same, for a statement that defines `raw_days` (dates) itself. Needs `slots`.
-- needs: raw_days (dates)
-- needs: slots (ends, starts)
-- gives: span (ends_at, grain, is_first, position, starts_at)
-- gives: raw_span (before_ends_at, ends_at, is_first, position, starts_at)
-- gives: raw_spans (are_first, ends, positions, starts)
span as materialized (
    select covered.position,
           covered.is_first,
           covered.grain,
           covered.starts_at,
           covered.ends_at
      from slots,
           raw_days,
           lateral svc.cover(slots.starts, slots.ends, raw_days.dates) as covered
),
raw_span as (
    select position,
           is_first,
           starts_at,
           ends_at,
           lag(ends_at, 1, '-infinity') over (order by starts_at) as before_ends_at
      from span
     where grain = 0
),
raw_spans as (
    select array_agg(position order by starts_at) as positions,
           array_agg(is_first order by starts_at) as are_first,
           array_agg(starts_at order by starts_at) as starts,
           array_agg(ends_at order by starts_at) as ends
      from raw_span
),

-- fragment: runs
-- `run`: spans of rollups, adjacent ones of the same grain joined.
-- needs: span (ends_at, grain, starts_at)
-- gives: run (ends_at, grain, starts_at)
run as (
    select grain,
           min(starts_at) as starts_at,
           max(ends_at) as ends_at
      from (
               select *,
                      count(*) filter (where is_new) over (order by starts_at) as n
                 from (
                          select grain,
                                 starts_at,
                                 ends_at,
                                 lag(grain) over ordered is distinct from grain
                                     or lag(ends_at) over ordered <> starts_at as is_new
                            from span
                           where grain > 0
                          window ordered as (order by starts_at)
                      ) as compared
           ) as numbered
     group by n,
              grain
),

-- fragment: raw_rule_inputs
-- The sessions of raw spans, with the columns of `rule_inputs`.
--
-- Each search in a span is a subquery of its own, which its `group by` or `offset` keeps the planner from merging
-- into the outer one. So it runs one index search for each span, however many rows it expects.
-- needs: raw_span (before_ends_at, ends_at, starts_at)
select session.*
  from raw_span,
       lateral (
           select null::bigint as label_id,
                  app,
                  title,
                  domain,
                  category,
                  null::uuid as title_rule,
                  app_session_id,
                  started_at,
                  ended_at,
                  idempotency_key,
                  device_id
             from activity.app_session
            where user_id = %(user_id)s
                  -- A session that overlaps several spans is read with the first of them.
              and started_at >= raw_span.before_ends_at
                  -- No session is longer than a day, so the index on its start bounds the search.
              and started_at > raw_span.starts_at - interval '24 hours'
              and started_at < raw_span.ends_at
              and (ended_at > raw_span.starts_at or started_at >= raw_span.starts_at)
              and not idle
           offset 0
       ) as session

-- fragment: rule_inputs_in_spans
-- `rolled`: the sums of rollups in each span by label and session (0016_rollups.sql). Sessions that began before a
-- span are counted only in the first span of a slot. `rule_inputs`: the inputs of category rules, which are the
-- labels of `rolled` and the sessions of raw spans. Needs the fragment `spans`.
-- needs: raw_span (before_ends_at, ends_at, is_first, position, starts_at)
-- needs: span (ends_at, grain, is_first, position, starts_at)
-- gives: rolled (continued, first_at, label_id, last_at, longest_ms, owned_ms, position, session_id, started)
-- gives: rule_inputs (app, app_session_id, category, device_id, domain, ended_at, idempotency_key, label_id, started_at,
--     title, title_rule)
rolled as (
    select span.position,
           part.*
      from span,
           lateral (
               select label_id,
                      session_id,
                      sum(started) as started,
                      case
                          when span.is_first
                              then coalesce(sum(continued) filter (where starts_at = span.starts_at), 0)
                          else 0
                      end as continued,
                      sum(owned_ms)::bigint as owned_ms,
                      max(longest_ms) as longest_ms,
                      min(first_at) as first_at,
                      max(last_at) as last_at
                 from activity.app_time
                where user_id = %(user_id)s
                  and grain = span.grain
                  and starts_at >= span.starts_at
                  and starts_at < span.ends_at
                group by label_id,
                         session_id
           ) as part
     where span.grain > 0
),
rule_inputs as (
    select label.label_id,
           label.app,
           null as title,
           label.domain,
           label.category,
           label.title_rule,
           null::uuid as app_session_id,
           null::timestamptz as started_at,
           null::timestamptz as ended_at,
           null as idempotency_key,
           null::uuid as device_id
      from (select distinct label_id from rolled) as used,
           activity.label as label
     where label.user_id = %(user_id)s
       and label.label_id = used.label_id
     union all
--include raw_rule_inputs
),

-- fragment: rule_inputs_in_runs
-- `rule_inputs`: the same for statements that read rollups by `run` and slot by slot. An index-only scan returns the
-- labels; for grains finer than a day, they are read from the rollups of the days.
-- needs: raw_span (before_ends_at, ends_at, starts_at)
-- needs: run (ends_at, grain, starts_at)
-- gives: rule_inputs (app, app_session_id, category, device_id, domain, ended_at, idempotency_key, label_id, started_at,
--     title, title_rule)
rule_inputs as (
    select label.label_id,
           label.app,
           null as title,
           label.domain,
           label.category,
           label.title_rule,
           null::uuid as app_session_id,
           null::timestamptz as started_at,
           null::timestamptz as ended_at,
           null as idempotency_key,
           null::uuid as device_id
      from (
               select distinct part.label_id
                 from run,
                      lateral (
                          select label_id
                            from activity.app_time
                           where user_id = %(user_id)s
                             and grain = greatest(run.grain, 3)
                             and starts_at >= date_trunc('day', run.starts_at, 'UTC')
                             and starts_at < run.ends_at
                          offset 0
                      ) as part
           ) as used,
           activity.label as label
     where label.user_id = %(user_id)s
       and label.label_id = used.label_id
     union all
--include raw_rule_inputs
),

-- fragment: raw_time
-- `raw_spent`: the time that raw sessions own in each slot, with the columns of `spent` (fragment `app_time`). Needs
-- the fragments `raw_rule_inputs` and `decided_category`.
--
-- Raw sessions are numbered so that of two with the same start the owner comes last. The planner cannot know their
-- number; where it expects one row, it joins thousands in a nested loop. A full join is never done that way, so the
-- join is a full one, although every row has a partner on the other side.
-- needs: decided_category (app, domain, known_as)
-- needs: raw_spans (are_first, ends, positions, starts)
-- gives: raw_spent (app, category, continued, device, domain, first_at, last_at, longest_ms, owned_ms, position,
--     session_id, started)
raw_session as (
    select row_number() over (
               order by
--include owner_order
           )::integer as n,
           session.app_session_id,
           session.app,
           session.domain,
           session.known_as as category,
           device.name as device,
           session.started_at,
           session.ended_at
      from decided_category as session,
           activity.device as device
     where device.user_id = %(user_id)s
       and device.device_id = session.device_id
),
raw_part as (
    select raw_spans.positions[part.span] as position,
           not part.is_start and raw_spans.are_first[part.span] as continues,
           part.n,
           part.is_start,
           part.owned_ms,
           part.first_at,
           part.last_at
      from (
               select array_agg(started_at order by n) as starts,
                      array_agg(ended_at order by n) as ends
                 from raw_session
           ) as timeline,
           raw_spans,
           lateral svc.owned_parts(timeline.starts, timeline.ends, raw_spans.starts, raw_spans.ends) as part
),
raw_spent as (
    select part.position,
           session.app,
           session.category,
           session.app_session_id as session_id,
           case when part.is_start then 1 else 0 end as started,
           case when part.continues then 1 else 0 end as continued,
           part.owned_ms,
           part.owned_ms as longest_ms,
           part.first_at,
           part.last_at,
           session.domain,
           session.device
      from raw_part as part
      full join raw_session as session using (n)
),

-- fragment: app_time
-- `spent`: the time that applications and categories own in each slot, in parts that add up: the number of sessions
-- that start in it, the number that continue from before it, and milliseconds. A part of one session has its id; a
-- part of several has the nil UUID and the time of the longest one. Only parts of raw sessions have a device.
-- Needs the fragments `spans`, `rule_inputs_in_spans` and `decided_category`. As in `raw_time`, the join is a full one.
-- needs: decided_category (app, domain, known_as)
-- needs: raw_spans (are_first, ends, positions, starts)
-- needs: rolled (continued, first_at, label_id, last_at, longest_ms, owned_ms, position, session_id, started)
-- needs: rule_inputs (label_id)
-- gives: spent (app, category, continued, device, domain, first_at, last_at, longest_ms, owned_ms, position,
--     session_id, started)
--include raw_time
spent as (
    select rolled.position,
           label.app,
           label.known_as as category,
           rolled.session_id,
           rolled.started,
           rolled.continued,
           rolled.owned_ms,
           rolled.longest_ms,
           rolled.first_at,
           rolled.last_at,
           label.domain,
           null as device
      from rolled
      full join (
               select label_id,
                      app,
                      domain,
                      known_as
                 from decided_category
                where label_id is not null
           ) as label
           using (label_id)
     union all
    select *
      from raw_spent
),

-- fragment: coding_time
-- `coding_spent`: the same for coding sessions, which own time among themselves, by project and language, with
-- the lines of sessions that start in the slot. A session without a language has the name that answers use
-- for it. Needs the fragments `spans` and `runs`.
-- needs: raw_span (before_ends_at, ends_at, position, starts_at)
-- needs: raw_spans (are_first, ends, positions, starts)
-- needs: run (ends_at, grain, starts_at)
-- needs: slots (ends, starts)
-- gives: coding_spent (continued, device, language, last_at, lines_added, lines_removed, owned_ms, position,
--     project, started)
raw_coding_session as (
    select row_number() over (
               order by
--include coding_owner_order
           )::integer as n,
           session.project,
           coalesce(session.language, 'unknown') as language,
           device.name as device,
           session.started_at,
           session.ended_at,
           session.lines_added,
           session.lines_removed
      from activity.device as device,
           raw_span,
           lateral (
               select project,
                      language,
                      file,
                      started_at,
                      ended_at,
                      lines_added,
                      lines_removed,
                      idempotency_key,
                      device_id
                 from activity.coding_session
                where user_id = %(user_id)s
                  and started_at >= raw_span.before_ends_at
                  and started_at > raw_span.starts_at - interval '24 hours'
                  and started_at < raw_span.ends_at
                  and (ended_at > raw_span.starts_at or started_at >= raw_span.starts_at)
               offset 0
           ) as session
     where device.user_id = %(user_id)s
       and device.device_id = session.device_id
),
raw_coding_part as (
    select raw_spans.positions[part.span] as position,
           not part.is_start and raw_spans.are_first[part.span] as continues,
           part.n,
           part.is_start,
           part.owned_ms,
           part.last_at
      from (
               select array_agg(started_at order by n) as starts,
                      array_agg(ended_at order by n) as ends
                 from raw_coding_session
           ) as timeline,
           raw_spans,
           lateral svc.owned_parts(timeline.starts, timeline.ends, raw_spans.starts, raw_spans.ends) as part
),
coding_spent as (
    select width_bucket(part.starts_at, slots.starts) as position,
           part.project,
           part.language,
           part.started,
           case
               when part.starts_at = slots.starts[width_bucket(part.starts_at, slots.starts)]
                   then part.continued
               else 0
           end as continued,
           part.owned_ms,
           part.last_at,
           part.lines_added,
           part.lines_removed,
           null as device
      from slots,
           run,
           lateral (
               select starts_at,
                      project,
                      language,
                      started,
                      continued,
                      owned_ms,
                      last_at,
                      lines_added,
                      lines_removed
                 from activity.coding_time
                where user_id = %(user_id)s
                  and grain = run.grain
                  and starts_at >= run.starts_at
                  and starts_at < run.ends_at
               offset 0
           ) as part
     union all
    select part.position,
           session.project,
           session.language,
           case when part.is_start then 1 else 0 end,
           case when part.continues then 1 else 0 end,
           part.owned_ms,
           part.last_at,
           case when part.is_start then session.lines_added end,
           case when part.is_start then session.lines_removed end,
           session.device
      from raw_coding_part as part
      full join raw_coding_session as session using (n)
),

-- fragment: touched_days
-- `requested`, and as `slot` the days that a range of instants overlaps; the first and the last may be partial. If
-- the clocks went back over midnight at an edge of the range, the neighbour of the edge's date overlaps it too, so one
-- more day is read. A day within the range that the zone skipped has no length.
-- gives: slot (date, ends_at, position, starts_at)
-- gives: requested (ends_at, starts_at)
requested as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
slot as (
    select row_number() over (order by day.date)::integer as position,
           day.date,
           greatest(day.starts_at, requested.starts_at) as starts_at,
           least(day.ends_at, requested.ends_at) as ends_at
      from requested,
           lateral svc.days(
               (requested.starts_at at time zone %(tz)s)::date,
               (requested.ends_at at time zone %(tz)s)::date + 1,
               %(tz)s
           ) as day
     where requested.starts_at < requested.ends_at
       and day.starts_at < requested.ends_at
       and day.ends_at > requested.starts_at
),

-- fragment: per_category
-- `per_category`: the sums of `spent` by slot and category, with the category's score. Needs the fragment
-- `app_time`.
-- needs: score (category, score)
-- needs: spent (category, continued, first_at, last_at, owned_ms, position, started)
-- gives: per_category (category, first_at, last_at, position, score, session_count, total_ms)
per_category as (
    select grouped.*,
           coalesce(known.score, 0) as score
      from (
               select position,
                      category,
                      sum(owned_ms)::bigint as total_ms,
                      sum(started + continued)::bigint as session_count,
                      min(first_at) as first_at,
                      max(last_at) as last_at
                 from spent
                group by position,
                         category
           ) as grouped
      left join score as known using (category)
),

-- fragment: per_session
-- `per_session`: `spent` with the parts of a session in a slot added up. Needs the fragment `app_time`.
-- needs: spent (app, category, continued, first_at, last_at, longest_ms, owned_ms, position, session_id, started)
-- gives: per_session (app, category, first_at, last_at, longest_ms, position, session_count, total_ms)
per_session as (
    select position,
           app,
           category,
           sum(started + continued) as session_count,
           sum(owned_ms) as total_ms,
           case session_id
               when '00000000-0000-0000-0000-000000000000' then max(longest_ms)
               else sum(owned_ms)
           end as longest_ms,
           min(first_at) as first_at,
           max(last_at) as last_at
      from spent
     group by position,
              app,
              category,
              session_id
),

-- fragment: apps
-- `per_app`: the sessions of each application and the time that they own in the one slot. Its category is the one with
-- most of its time. `total`: their sums. Needs the fragment `per_session`.
-- needs: per_session (app, category, first_at, last_at, longest_ms, session_count, total_ms)
-- gives: per_app (app, category, first_at, last_at, longest_ms, session_count, total_ms)
-- gives: total (app_count, session_count, tracked_ms)
per_category as (
    select app,
           category,
           sum(total_ms) as total_ms,
           max(longest_ms) as longest_ms,
           sum(session_count) as session_count,
           min(first_at) as first_at,
           max(last_at) as last_at
      from per_session
     group by app,
              category
),
per_app as (
    select app,
           (array_agg(category order by total_ms desc, category collate "C"))[1] as category,
           sum(total_ms)::bigint as total_ms,
           max(longest_ms)::bigint as longest_ms,
           sum(session_count)::bigint as session_count,
           min(first_at) as first_at,
           max(last_at) as last_at
      from per_category
     group by app
),
total as (
    select coalesce(sum(total_ms), 0)::bigint as tracked_ms,
           count(*) as app_count,
           coalesce(sum(session_count), 0)::bigint as session_count
      from per_app
),

-- fragment: page
-- The page of a list: rows of `list_row`, which has the columns `at`, `id` and `line` (the row as JSON), the newest
-- first, and one row more than the limit where there are more. It is the last one before the answer.
-- needs: list_row (at, id, line)
-- gives: page (count, data, has_more, limit, next_cursor)
page as (
    select coalesce(json_agg(line order by n) filter (where n <= %(limit)s::bigint), '[]') as data,
           count(*) filter (where n <= %(limit)s::bigint) as count,
           %(limit)s::bigint as limit,
           count(*) > %(limit)s::bigint as has_more,
           case
               when count(*) <= %(limit)s::bigint then null
               when %(limit)s::bigint = 0 then %(cursor)s::text
               else (array_agg(svc.cursor(at, id)) filter (where n = %(limit)s::bigint))[1]
           end as next_cursor
      from (
               select row_number() over (order by at desc, id desc) as n,
                      at,
                      id,
                      line
                 from list_row
           ) as numbered
)
