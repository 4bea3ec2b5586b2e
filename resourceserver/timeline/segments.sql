-- Statements about the order of segments: switches from one application to another, and streaks of focus.
-- Both are computed on the whole timeline. A statement that needs them defines `requested` and includes
--
--     `reach_of_switches` or `reach_of_streaks`, `timeline_days`, `categories`, `rule_inputs_in_days`,
--     `decided_category`, `decided_labels`, and those of `walked_segments`, `walked_switches`, `switches`,
--     `walked_streaks`, `streak_ends`, `use_in_streaks`, `placed_segments` and `detours` that it uses.
--
-- It begins `with recursive`. A statement about days includes `switched` and `focused` instead, which include these.
-- All times are in milliseconds since 1970, and timestamps only in answers, since intervals cost several times as
-- much to add and to compare.

-- fragment: reach_of_switches
-- `reaching`: whether a switch can span this whole day, so the neighbouring days must be read too. A certain switch
-- separates what lies before it from what lies after it.
-- gives: reaching (is_over_by_switches)
reaching as (
    select true as is_over_by_switches
),

-- fragment: reach_of_streaks
-- `reaching`: the same for streaks. Only pauses of more than five minutes certainly end a streak.
-- gives: reaching (is_over_by_switches)
reaching as (
    select false as is_over_by_switches
),

-- fragment: timeline_days
-- `timeline_day`: the days in UTC that must be read, in order, with the columns of activity.app_timeline: those of
-- the ranges of `requested`, and, unless a pause of more than five minutes lies between, the days before and after
-- these, up to the first that no switch or streak can span. `reach`: the first and the last of each stretch of these
-- days; stretches neither overlap nor adjoin.
-- `marked_session`: the sessions of marked days among them, once for each of their days, numbered so that of
-- two with the same start the owner comes last. Each is a label of its own, with the negative number as its id.
--
-- Nothing of a marked day is read from rollups.
-- needs: requested (ends_at, starts_at)
-- needs: reaching (is_over_by_switches)
-- gives: reach (first, last)
-- gives: marked_day (date)
-- gives: marked_session (app, app_session_id, category, domain, ends_at, n, starts_at, title)
-- gives: timeline_day (count, date, date_ms, ends, first_session, is_continued, labels, last_end, last_session,
--     starts, switch_at, switch_before, switch_from, switch_to)
edge as (
    select requested.starts_at as range_at,
           side.step,
           (side.within at time zone 'UTC')::date as date,
           -- Where the range begins or ends on this day, in milliseconds; null on the days beyond.
           (extract(epoch from side.at - date_trunc('day', side.within, 'UTC')) * 1000)::integer as at_ms
      from requested,
           lateral (
               values (-1, requested.starts_at, requested.starts_at),
                      (1, requested.ends_at - interval '1 millisecond', requested.ends_at)
           ) as side (step, within, at)
     union all
    select edge.range_at,
           edge.step,
           edge.date + edge.step,
           null
      from edge,
           lateral (values (edge.date::timestamp at time zone 'UTC')) as day (at)
     where case
               when exists (select from activity.rollup_due where user_id = %(user_id)s and date = edge.date)
                   then edge.at_ms is not null
                        or (
                            select range_agg(tstzrange(started_at, ended_at + interval '5 minutes', '[]'))
                                   @> tstzrange(day.at + interval '5 minutes', day.at + interval '24 hours')
                              from activity.app_session
                             where user_id = %(user_id)s
                               and started_at > day.at - interval '24 hours'
                               and started_at < day.at + interval '24 hours'
                               and ended_at > greatest(started_at, day.at)
                               and not idle
                        )
               else exists (
                   select
                     from activity.app_timeline
                    where user_id = %(user_id)s
                      and date = edge.date
                      and case
                              when edge.at_ms is null
                                  then is_unbroken
                                       and (switch_at = '{}' or not (select is_over_by_switches from reaching))
                              -- A pause between the range and the next day separates the two.
                              else not exists (
                                  select
                                    from unnest(array_prepend(0, ends), array_append(starts, 86400000))
                                             as pause (starts_ms, ends_ms)
                                   where pause.ends_ms - pause.starts_ms > 300000
                                     and case edge.step
                                             when -1 then pause.starts_ms <= edge.at_ms
                                             else pause.ends_ms >= edge.at_ms
                                         end
                              )
                          end
               )
           end
),
reach as (
    select lower(days) as first,
           upper(days) - 1 as last
      from (
               select distinct unnest(range_agg(daterange(min(date), max(date), '[]')) over ()) as days
                 from edge
                group by range_at
           ) as stretch
),
marked_day as materialized (
    select due.date
      from reach
      join activity.rollup_due as due
        on due.user_id = %(user_id)s
       and due.date between reach.first and reach.last
),
marked_session as materialized (
    select row_number() over (
               order by touched.date,
--include owner_order
           )::integer as n,
           session.app_session_id,
           session.app,
           session.title,
           session.domain,
           session.category,
           greatest(session.started_at, touched.date::timestamp at time zone 'UTC') as starts_at,
           least(session.ended_at, (touched.date + 1)::timestamp at time zone 'UTC') as ends_at
      from activity.device as device,
           (
               select day.date,
                      (day.date + 1)::timestamp at time zone 'UTC' as ends_at,
                      bool_or(day.is_itself) as is_marked,
                      bool_or(not day.is_itself) as is_before_marked
                 from marked_day,
                      lateral (
                          values (marked_day.date, true), (marked_day.date - 1, false)
                      ) as day (date, is_itself)
                group by day.date
           ) as first_day,
           lateral (
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
                  and started_at >= first_day.date::timestamp at time zone 'UTC'
                  and started_at < first_day.ends_at
                  and ended_at > started_at
                  and not idle
               offset 0
           ) as session,
           -- No session is longer than a day.
           lateral (
               values (first_day.date, first_day.is_marked),
                      (first_day.date + 1, first_day.is_before_marked and session.ended_at > first_day.ends_at)
           ) as touched (date, is_marked)
     where (device.user_id, device.device_id) = (%(user_id)s, session.device_id)
       and touched.is_marked
),
marked_sessions as (
    select array_agg(starts_at order by n) as starts,
           array_agg(ends_at order by n) as ends,
           array_agg(app_session_id order by n) as ids
      from marked_session
),
marked_segment as (
    select (segment.starts_at at time zone 'UTC')::date as date,
           segment.n,
           svc.duration_ms(segment.starts_at - date_trunc('day', segment.starts_at, 'UTC'))::integer as starts_ms,
           svc.duration_ms(segment.ends_at - date_trunc('day', segment.starts_at, 'UTC'))::integer as ends_ms
      from marked_sessions,
           lateral svc.owned_segments(marked_sessions.starts, marked_sessions.ends) as segment
),
timeline_day as materialized (
    select *,
           (date - date '1970-01-01') * bigint '86400000' as date_ms,
           cardinality(starts) as count,
           -- The session that owns the end of a day and the start of the next one owns the midnight between.
           coalesce(lag(date) over days = date - 1 and lag(last_session) over days = first_session, false)
               as is_continued,
           case
               when lead(date) over days = date + 1 and lead(first_session) over days = last_session
                   then 86400000 + (lead(ends) over days)[1]
           end as last_end
      from (
               select stored.*
                 from reach,
                      lateral (
                          select date,
                                 labels,
                                 starts,
                                 ends,
                                 first_session,
                                 last_session,
                                 switch_at,
                                 switch_from,
                                 switch_to,
                                 switch_before
                            from activity.app_timeline
                           where user_id = %(user_id)s
                             and date between reach.first and reach.last
                          offset 0
                      ) as stored
                where stored.date not in (select date from marked_day)
                union all
               select date,
                      array_agg(-n::bigint order by starts_ms),
                      array_agg(starts_ms order by starts_ms),
                      array_agg(ends_ms order by starts_ms),
                      (select ids from marked_sessions)[(array_agg(n order by starts_ms))[1]],
                      (select ids from marked_sessions)[(array_agg(n order by starts_ms desc))[1]],
                      '{}',
                      '{}',
                      '{}',
                      '{}'
                 from marked_segment
                group by date
           ) as day
    window days as (order by date)
),

-- fragment: rule_inputs_in_days
-- `rule_inputs`: the inputs of category rules, which are the labels of `timeline_day` and the sessions of marked days.
-- Needs the fragment `timeline_days`.
-- needs: marked_session (app, category, domain, n, starts_at, title)
-- needs: reach (first, last)
-- gives: rule_inputs (app, category, domain, label_id, title, title_rule)
rule_inputs as (
    select label.label_id,
           label.app,
           null as title,
           label.domain,
           label.category,
           label.title_rule
      from activity.label as label
     where label.user_id = %(user_id)s
       and label.label_id = any (
               array(
                   select distinct part.label_id
                     from reach,
                          lateral (
                              select label_id
                                from activity.app_time
                               where user_id = %(user_id)s
                                 and grain = 3
                                 and starts_at >= reach.first::timestamp at time zone 'UTC'
                                 and starts_at < (reach.last + 1)::timestamp at time zone 'UTC'
                              offset 0
                          ) as part
               )
           )
     union all
    select -n,
           app,
           title,
           domain,
           category,
           null
      from marked_session
),

-- fragment: decided_labels
-- `label_map`: arrays with the ids of all labels in order and, at the same positions, the numbers of their
-- applications and categories and the scores of the latter. `names`: applications and categories by number, in
-- byte order. Needs the fragments `rule_inputs_in_days` and `decided_category`.
--
-- A binary search finds the position of a label. For a join, the planner would have to guess the number of rows,
-- and a wrong guess gives a nested loop.
-- needs: decided_category (app, known_as)
-- needs: rule_inputs (label_id)
-- needs: score (category, score)
-- gives: names (apps, categories)
-- gives: label_map (apps, categories, ids, scores)
names as (
    select array(select distinct app collate "C" from decided_category order by 1) as apps,
           array(select distinct known_as collate "C" from decided_category order by 1) as categories
),
numbers as (
    select (select jsonb_object_agg(app, n) from unnest(apps) with ordinality as known (app, n)) as by_app,
           (
               select jsonb_object_agg(category, n)
                 from unnest(categories) with ordinality as known (category, n)
           ) as by_category,
           (select jsonb_object_agg(category, score) from score) as score
      from names
),
label_map as (
    select array_agg(label_id order by label_id) as ids,
           array_agg(((select by_app from numbers) -> app)::integer order by label_id) as apps,
           array_agg(((select by_category from numbers) -> known_as)::integer order by label_id)
               as categories,
           array_agg(coalesce(((select score from numbers) -> known_as)::integer, 0) order by label_id) as scores
      from decided_category
),

-- fragment: walked_segments
-- `walked`: the segments that are searched for switches: of each day those before its first certain switch and those
-- from its last one on, or all segments of a day without certain switches. Needs the fragment `timeline_days`.
--
-- The times of the second part of a day are moved on, so that no switch is counted between the two parts.
-- The first part ends with the end of a run, and the second begins with a run (rollups.sql).
-- needs: timeline_day (count, date, date_ms, ends, is_continued, labels, last_end, starts, switch_at)
-- gives: walked (ends_ms, jump_ms, label_id, starts_ms)
walked as (
    select segment.label_id,
           day.date_ms + segment.starts_ms as starts_ms,
           day.date_ms
               + case
                     when part.first + segment.n - 1 = day.count
                         then coalesce(day.last_end, segment.ends_ms)
                     else segment.ends_ms
                 end as ends_ms,
           (day.jumps + part.jumps) * 600000 as jump_ms
      from (
               select date_ms,
                      count,
                      is_continued,
                      last_end,
                      labels,
                      starts,
                      ends,
                      switch_at,
                      count(*) filter (where switch_at <> '{}') over (
                          order by date
                          rows between unbounded preceding and 1 preceding
                      ) as jumps
                 from timeline_day
           ) as day,
           lateral (
               select 0 as jumps,
                      case when day.is_continued then 2 else 1 end as first,
                      case
                          when day.switch_at = '{}' then day.count
                          else width_bucket(day.switch_at[1], day.starts) - 1
                      end as last
                union all
               select 1,
                      width_bucket(day.switch_at[cardinality(day.switch_at)], day.starts),
                      day.count
                where day.switch_at <> '{}'
           ) as part,
           lateral unnest(
               day.labels[part.first:part.last],
               day.starts[part.first:part.last],
               day.ends[part.first:part.last]
           ) with ordinality as segment (label_id, starts_ms, ends_ms, n)
),

-- fragment: walked_switches
-- `walked_switch`: the switches among the segments of `walked`. Needs the fragment `walked_segments`, and
-- `label_map` with applications.
-- needs: label_map (apps, ids)
-- needs: walked (ends_ms, jump_ms, label_id, starts_ms)
-- gives: walked_switch (at_ms, before_ms, from_label, to_label)
walk as (
    select array_agg(label_id order by starts_ms) as labels,
           array_agg(starts_ms order by starts_ms) as starts,
           array_agg(starts_ms + jump_ms order by starts_ms) as start_clocks,
           array_agg(ends_ms + jump_ms order by starts_ms) as end_clocks,
           array_agg(
               (select apps from label_map)[width_bucket(label_id, (select ids from label_map))]
               order by starts_ms
           ) as apps
      from walked
),
walked_switch as (
    select walk.starts[result.at_position] as at_ms,
           walk.labels[result.from_position] as from_label,
           walk.labels[result.to_position] as to_label,
           result.before_ms
      from walk,
           lateral svc.switches(walk.start_clocks, walk.end_clocks, walk.apps) as result
),

-- fragment: requested_stretches
-- `requested`: the stretches of slots, so that the days between two stretches are not read. Slots that are less than
-- two days apart are one stretch, since no day might be left out there. Slots are numbered in order of time without
-- overlaps.
-- needs: slot (ends_at, position, starts_at)
-- gives: requested (ends_at, starts_at)
requested as (
    select lower(stretch) as starts_at,
           upper(stretch) - interval '48 hours' as ends_at
      from (
               select unnest(range_agg(tstzrange(starts_at, ends_at + interval '48 hours'))) as stretch
                 from slot
           ) as apart
),

-- fragment: switched
-- `switched`: the number of switches in each slot. Needs `slot` (position, starts_at, ends_at), numbered from
-- 1 in order of time without overlaps. Certain switches are counted without reading their segments.
-- needs: slot (date, ends_at, position, starts_at)
-- gives: switched (app_switches, position)
switched as (
    with recursive
--include requested_stretches
--include reach_of_switches
--include timeline_days
--include walked_segments
    label_map as (
        select array_agg(label_id order by label_id) as ids,
               array_agg(app_number order by label_id) as apps
          from (
                   select label_id,
                          dense_rank() over (order by app collate "C")::integer as app_number
                     from (
                              select label_id,
                                     app
                                from activity.label
                               where user_id = %(user_id)s
                                 and label_id = any (array(select distinct label_id from walked))
                               union all
                              select -n,
                                     app
                                from marked_session
                          ) as named
               ) as numbered
    ),
--include walked_switches
--include slots_ms
    counted as (
        select touched.position,
               width_bucket(clipped.ends_ms - 1, day.switch_at)
                   - width_bucket(clipped.starts_ms - 1, day.switch_at) as count
          -- The slice is a copy without compression, because each slot reads it.
          from (select date_ms, switch_at[:] from timeline_day offset 0) as day,
               slots_ms,
               lateral generate_series(
                   greatest(width_bucket(day.date_ms, slots_ms.starts), 1),
                   width_bucket(day.date_ms + 86399999, slots_ms.starts)
               ) as touched (position),
               lateral (
                   select greatest(slots_ms.starts[touched.position] - day.date_ms, 0)::integer as starts_ms,
                          least(
                              greatest(slots_ms.ends[touched.position] - day.date_ms, 0),
                              86400000
                          )::integer as ends_ms
               ) as clipped
         where clipped.starts_ms < clipped.ends_ms
         union all
        select touched.position,
               1
          from walked_switch,
               slots_ms,
               lateral width_bucket(walked_switch.at_ms, slots_ms.starts) as touched (position)
         where walked_switch.at_ms < slots_ms.ends[touched.position]
    )
    select position,
           sum(count) as app_switches
      from counted
     group by position
    having sum(count) > 0
),

-- fragment: slots_ms
-- `slots_ms`: the edges of each `slot`.
-- needs: slot (ends_at, position, starts_at)
-- gives: slots_ms (ends, starts)
slots_ms as (
    select array_agg((extract(epoch from starts_at) * 1000)::bigint order by position) as starts,
           array_agg((extract(epoch from ends_at) * 1000)::bigint order by position) as ends
      from slot
),

-- fragment: switches
-- `switch`: the switches of all of `timeline_day`, with the labels of the longest segments of the runs before
-- and after. Switches outside the range of `requested` may be wrong or missing; those in it are right. Needs the
-- fragment `walked_switches`.
-- needs: timeline_day (date_ms, switch_at, switch_before, switch_from, switch_to)
-- needs: walked_switch (at_ms, before_ms, from_label, to_label)
-- gives: switch (at_ms, before_ms, from_label, to_label)
switch as (
    select date_ms + unnest(switch_at) as at_ms,
           unnest(switch_from) as from_label,
           unnest(switch_to) as to_label,
           unnest(switch_before) as before_ms
      from timeline_day
     union all
    select at_ms,
           from_label,
           to_label,
           before_ms
      from walked_switch
),

-- fragment: placed_segments
-- `placed`: the segments of `timeline_day`, with their places in `label_map`. Needs the fragment `decided_labels`.
-- needs: label_map (ids)
-- needs: timeline_day (count, date, date_ms, ends, is_continued, labels, last_end, starts)
-- gives: placed (ends_ms, place, starts_ms)
placed as (
    select width_bucket(label_id, (select ids from label_map)) as place,
           date_ms + starts_ms as starts_ms,
           date_ms + case when n = count then coalesce(last_end, ends_ms) else ends_ms end as ends_ms
      from (
               select date_ms,
                      count,
                      last_end,
                      is_continued,
                      generate_subscripts(labels, 1) as n,
                      unnest(labels) as label_id,
                      unnest(starts) as starts_ms,
                      unnest(ends) as ends_ms
                 -- Days in order have their segments in order, and nothing after this changes it.
                 from (select * from timeline_day order by date) as day
           ) as segment
     -- A segment that begins before midnight belongs to the day before.
     where n > 1
        or not is_continued
),

-- fragment: segments
-- `segments`: the segments of `timeline_day` in order and in arrays: one row for each day, or for successive days
-- without a pause of more than five minutes at the midnights between them. No streak lasts from one row to another.
-- Times are counted from `base_ms`. `next_ms`: when the first segment of the next row begins. Needs the fragment
-- `decided_labels`.
--
-- The arrays of a single day are used as they are stored, because most days are single and to take them apart costs
-- more than anything else here.
-- needs: label_map (ids, scores)
-- needs: timeline_day (count, date, date_ms, ends, is_continued, labels, last_end, starts)
-- gives: segments (base_ms, ends, labels, next_ms, scores, starts)
following_day as materialized (
    select *,
           count(*) filter (where is_apart) over days as days_apart,
           is_apart and lead(is_apart, 1, true) over days as is_single
      from (
               select *,
                      coalesce(date_ms + starts[1] - lag(date_ms + ends[count]) over (order by date) > 300000, true)
                          as is_apart
                 from timeline_day
           ) as day
    window days as (order by date)
),
segments as (
    select base_ms,
           labels,
           starts,
           ends,
           array(
               select (select scores from label_map)[width_bucket(label_id, (select ids from label_map))]
                 from unnest(labels) as label_id
           ) as scores,
           lead(base_ms + starts[1]) over (order by days_apart) as next_ms
      from (
               select days_apart,
                      date_ms as base_ms,
                      -- The slice is a copy without compression, because each streak reads it.
                      labels[:],
                      starts::bigint[] as starts,
                      ends::bigint[] as ends
                 from following_day
                where is_single
                union all
               select days_apart,
                      0,
                      array_agg(label_id),
                      array_agg(date_ms + starts_ms),
                      array_agg(date_ms + case when n = count then coalesce(last_end, ends_ms) else ends_ms end)
                 from (
                          select *,
                                 generate_subscripts(labels, 1) as n,
                                 unnest(labels) as label_id,
                                 unnest(starts) as starts_ms,
                                 unnest(ends) as ends_ms
                            -- Days in order have their segments in order, and nothing after this changes it.
                            from (select * from following_day where not is_single order by days_apart, date) as day
                      ) as segment
                -- A segment that begins before midnight belongs to the day before.
                where n > 1
                   or not is_continued
                group by days_apart
           ) as stretch
),

-- fragment: walked_streaks
-- `walked_streak`: the streaks of focus (svc.focus_streaks) in `segments`, each whole even if only a part lies in the
-- range, with its segments, the reason for its end, the moment of it, and the label that broke it, if one did. The reason
-- is null where the days that were read do not show it. Streaks outside the range of `requested` may be wrong or missing;
-- those that overlap it are right. Needs the fragment `decided_labels`.
-- needs: label_map (ids, scores)
-- needs: reach (first)
-- needs: timeline_day (count, date, date_ms, ends, is_continued, labels, last_end, starts)
-- gives: walked_streak (breaker_label, broken_ms, ended_ms, ends, known_gap_ms, known_reason, labels, started_ms, starts)
--include segments
-- No row of `segments` says what follows the last one of a stretch of days.
stretches as (
    select array_agg((first - date '1970-01-01') * bigint '86400000' order by first) as starts
      from reach
),
walked_streak as materialized (
    select started_ms,
           ended_ms,
           labels,
           starts,
           ends,
           breaker_label,
           case when breaker_ms is not null then coalesce(broken_by, 'idle') end as known_reason,
           case when broken_by <> 'idle' then breaker_ms else paused_ms end as broken_ms,
           case when coalesce(broken_by, 'idle') = 'idle' then breaker_ms - paused_ms end as known_gap_ms
      from (
               select segments.labels[first_position:last_position] as labels,
                      segments.starts[first_position:last_position] as starts,
                      segments.ends[first_position:last_position] as ends,
                      base_ms + segments.starts[first_position] as started_ms,
                      base_ms + segments.ends[last_position] as ended_ms,
                      walk.reason as broken_by,
                      case when walk.reason <> 'idle' then segments.labels[breaker_position] end as breaker_label,
                      coalesce(
                          base_ms + segments.starts[breaker_position],
                          case
                              when width_bucket(next_ms, stretches.starts)
                                   = width_bucket(base_ms + segments.ends[cardinality(segments.ends)] - 1, stretches.starts)
                                  then next_ms
                          end
                      ) as breaker_ms,
                      base_ms + segments.ends[coalesce(breaker_position - 1, cardinality(segments.ends))] as paused_ms
                 from segments,
                      stretches,
                      lateral svc.focus_streaks(segments.starts, segments.ends, segments.scores) as walk
           ) as ended_streak
),

-- fragment: streak_ends
-- `streak`: the streaks of `known_streak`, each with the reason for its end. Where it was not known, the first use after
-- the streak decides. On a day without a mark the timeline has it too, even if sessions of that day have been removed.
-- needs: known_streak (breaker_app, breaker_category, broken_ms, ended_ms, known_gap_ms, known_reason, started_ms)
-- gives: streak (breaker_app, breaker_category, broken_ms, ended_ms, gap_ms, reason, started_ms)
streak as (
    select ended.*,
           coalesce(
               known_reason,
               case
                   when following_ms is not null then 'idle'
                   when extract(epoch from now()) * 1000 - broken_ms < 300000 then 'ongoing'
                   else 'end_of_data'
               end
           ) as reason,
           coalesce(known_gap_ms, following_ms - broken_ms) as gap_ms
      from (
               select known_streak.*,
                      case
                          when known_reason is null then (
                              select min(first_use.at_ms)
                                from (
                                         (
                                             select (extract(epoch from started_at) * 1000)::bigint as at_ms
                                               from activity.app_session
                                              where user_id = %(user_id)s
                                                and started_at > timestamptz 'epoch' + broken_ms * interval '1 millisecond'
                                                and ended_at > started_at
                                                and not idle
                                              order by started_at
                                              limit 1
                                         )
                                          union all
                                         (
                                             select (date - date '1970-01-01') * bigint '86400000' + starts[1]
                                               from activity.app_timeline
                                              where user_id = %(user_id)s
                                                and date > (timestamp 'epoch' + broken_ms * interval '1 millisecond')::date
                                                and date not in (
                                                        select date from activity.rollup_due where user_id = %(user_id)s
                                                    )
                                              order by date
                                              limit 1
                                         )
                                     ) as first_use
                          )
                      end as following_ms
                 from known_streak
               offset 0
           ) as ended
),

-- fragment: use_in_streaks
-- `use_in_streak`: what was used in each of `listed_streak`, and for how long. Needs the fragment `decided_labels`.
-- needs: label_map (apps, categories, ids, scores)
-- needs: listed_streak (ends, labels, started_ms, starts)
-- needs: names (apps, categories)
-- gives: use_in_streak (app_count, productive_ms, started_ms, top_app, top_category)
part as materialized (
    select listed_streak.started_ms,
           (select apps from label_map)[segment.place] as app,
           (select categories from label_map)[segment.place] as category,
           (select scores from label_map)[segment.place] as score,
           segment.own_ms
      from listed_streak,
           lateral (
               select width_bucket(label_id, (select ids from label_map)) as place,
                      ends_ms - starts_ms as own_ms
                 from unnest(listed_streak.labels, listed_streak.starts, listed_streak.ends)
                          as own (label_id, starts_ms, ends_ms)
               -- Without it, each label would be searched for at each use of its place.
               offset 0
           ) as segment
),
used as (
    select started_ms,
           app,
           category,
           sum(own_ms) as own_ms,
           sum(own_ms) filter (where score >= 1) as productive_ms
      from part
     group by grouping sets ((started_ms, app), (started_ms, category))
),
use_in_streak as (
    select started_ms,
           (select apps from names)[(array_agg(app order by own_ms desc, app) filter (where app is not null))[1]]
               as top_app,
           (select categories from names)[
               (array_agg(category order by own_ms desc, category) filter (where category is not null))[1]
           ] as top_category,
           count(app) as app_count,
           (sum(productive_ms) filter (where category is not null))::bigint as productive_ms
      from used
     group by started_ms
),

-- fragment: detours
-- `detour`: detours among `placed`: when each began, the place of the label that productive work was left for, and how
-- long productive work waited; null if a pause ended the detour.
-- needs: label_map (scores)
-- needs: placed (ends_ms, place, starts_ms)
-- gives: detour (away_ms, began_ms, place)
--
-- The last row has no segment: it ends the detour that is open at the end. `other_ms` is the tracked time in segments
-- that are not productive, up to the end of each. Doubles hold these sums exactly and are added up several times as
-- fast as numbers of 64 bits. All functions share one window, whose rows are then read once.
segment as (
    select starts_ms,
           ends_ms,
           is_productive,
           own_other_ms,
           lead(place) over in_order as place_after,
           coalesce(starts_ms - lag(ends_ms) over in_order > 300000, true) as is_after_pause,
           sum(own_other_ms) over in_order as other_ms
      from (
               select place,
                      starts_ms,
                      ends_ms,
                      (select scores from label_map)[place] >= 1 as is_productive,
                      case
                          when (select scores from label_map)[place] >= 1 then 0
                          else (ends_ms - starts_ms)::double precision
                      end as own_other_ms
                 from placed
                union all
               select null,
                      null,
                      null,
                      false,
                      0
           ) as placed
    window in_order as (order by starts_ms rows unbounded preceding)
),
detour as (
    select began_ms,
           place,
           case when is_returned then returned_ms - began_ms end as away_ms
      from (
               select is_productive,
                      ends_ms as began_ms,
                      place_after as place,
                      -- The time between this and the next segment that is productive or comes after a pause.
                      lead(other_ms - own_other_ms) over in_order - other_ms as own_ms,
                      lead(is_productive and not is_after_pause) over in_order as is_returned,
                      lead(starts_ms) over in_order as returned_ms
                 from segment
                where is_productive
                   or is_after_pause
               window in_order as (order by starts_ms)
           ) as left_work
     where is_productive
       and own_ms >= 1000
),

-- fragment: focused
-- `streak`: the streaks of focus that overlap the slots, each whole. `focused`: the part of each that lies in each
-- slot. Needs `slot` as `switched` does, and the fragment `categories`.
-- needs: rule (category, category_rule_id, field, match, pattern, position)
-- needs: score (category, score)
-- needs: slot (date, ends_at, position, starts_at)
-- gives: streak (ended_ms, started_ms)
-- gives: focused (focus_ms, position)
streak as (
    with recursive
--include requested_stretches
--include reach_of_streaks
--include timeline_days
--include rule_inputs_in_days
--include decided_category
--include decided_labels
--include segments
    walked_streak as (
        select segments.base_ms + segments.starts[walk.first_position] as started_ms,
               segments.base_ms + segments.ends[walk.last_position] as ended_ms
          from segments,
               lateral svc.focus_streaks(segments.starts, segments.ends, segments.scores) as walk
    )
    select started_ms,
           ended_ms
      from walked_streak
     where exists (
               select
                 from requested
                where started_ms < (extract(epoch from requested.ends_at) * 1000)::bigint
                  and ended_ms > (extract(epoch from requested.starts_at) * 1000)::bigint
           )
),
focused as (
    with
--include slots_ms
    clipped as (
        select touched.position,
               least(streak.ended_ms, slots_ms.ends[touched.position])
                   - greatest(streak.started_ms, slots_ms.starts[touched.position]) as focus_ms
          from streak,
               slots_ms,
               lateral generate_series(
                   greatest(width_bucket(streak.started_ms, slots_ms.starts), 1),
                   width_bucket(streak.ended_ms, slots_ms.starts)
               ) as touched (position)
    )
    select position,
           focus_ms
      from clipped
     where focus_ms > 0
),
