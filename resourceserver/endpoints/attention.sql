-- name: context_switches
-- Switches from one application to another in a range, the newest first; the most frequent pairs of applications;
-- and how long each application was used before a switch, over the whole range.
--include answer
with recursive requested as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
requested_ms as (
    select (extract(epoch from starts_at) * 1000)::bigint as starts,
           (extract(epoch from ends_at) * 1000)::bigint as ends,
           (extract(epoch from %(cursor_at)s::timestamptz) * 1000)::bigint as before
      from requested
),
--include reach_of_switches
--include timeline_days
--include categories
--include rule_inputs_in_days
--include decided_category
--include decided_labels
--include walked_segments
--include walked_switches
--include switches
switch_in_range as materialized (
    select at_ms,
           from_label,
           to_label,
           (select apps from label_map)[width_bucket(from_label, (select ids from label_map))] as from_app,
           (select apps from label_map)[width_bucket(to_label, (select ids from label_map))] as to_app,
           before_ms
      from switch
     where at_ms >= (select starts from requested_ms)
       and at_ms < (select ends from requested_ms)
),
-- Whole days in the range are read from rollups.
tracked as (
    select sum(ms)::bigint as ms
      from (
               select owned_ms as ms
                 from activity.app_time
                where user_id = %(user_id)s
                  and grain = 3
                  and starts_at >= (select starts_at from requested)
                  and starts_at <= (select ends_at - interval '24 hours' from requested)
                  and (starts_at at time zone 'UTC')::date not in (select date from marked_day)
                union all
               select least(day.date_ms + segment.ends_ms, requested_ms.ends)
                          - greatest(day.date_ms + segment.starts_ms, requested_ms.starts)
                 from timeline_day as day,
                      requested_ms,
                      lateral unnest(day.starts, day.ends) as segment (starts_ms, ends_ms)
                where (
                          day.date in (select date from marked_day)
                          or day.date_ms < requested_ms.starts
                          or day.date_ms + 86400000 > requested_ms.ends
                      )
                  and day.date_ms + segment.starts_ms < requested_ms.ends
                  and day.date_ms + segment.ends_ms > requested_ms.starts
           ) as part
),
frequent as (
    select from_app,
           to_app,
           count(*) as count
      from switch_in_range
     group by from_app,
              to_app
     order by count(*) desc,
              from_app,
              to_app
     limit 50
),
pair as (
    select (select apps from names)[switch_in_range.from_app] as from_app,
           (select apps from names)[switch_in_range.to_app] as to_app,
           count(*) as count,
           round(avg(switch_in_range.before_ms))::bigint as average_before_ms,
           -- As a number, since a double would be rounded to the even neighbour.
           round(percentile_cont(0.5) within group (order by switch_in_range.before_ms)::numeric)::bigint
               as median_before_ms
      from switch_in_range
     where (switch_in_range.from_app, switch_in_range.to_app) in (select from_app, to_app from frequent)
     group by switch_in_range.from_app,
              switch_in_range.to_app
),
total as (
    select count(*) as switch_count,
           round(avg(before_ms))::bigint as average_before_ms,
           round(percentile_cont(0.5) within group (order by before_ms)::numeric)::bigint
               as median_before_ms,
           round(count(*) * 3600000.0 / nullif((select ms from tracked), 0), 1) as per_active_hour
      from switch_in_range
),
list_row as (
    select newest.at,
           newest.id,
           row_to_json(line) as line
      from (
               -- No two switches have the same time, so the cursor needs no id.
               select timestamptz 'epoch' + at_ms * interval '1 millisecond' as at,
                      uuid '00000000-0000-0000-0000-000000000000' as id,
                      width_bucket(from_label, (select ids from label_map)) as from_place,
                      width_bucket(to_label, (select ids from label_map)) as to_place,
                      from_app,
                      to_app,
                      before_ms
                 from switch_in_range
                where at_ms < (select before from requested_ms)
                order by at_ms desc
                limit %(limit)s::bigint + 1
           ) as newest,
           lateral (
               select svc.instant(newest.at) as at,
                      (select apps from names)[newest.from_app] as from_app,
                      (select apps from names)[newest.to_app] as to_app,
                      (select categories from names)[(select categories from label_map)[newest.from_place]]
                          as from_category,
                      (select categories from names)[(select categories from label_map)[newest.to_place]]
                          as to_category,
                      newest.before_ms
           ) as line
),
--include page
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       json_build_object('max_gap_ms', 300000, 'min_session_ms', 1000) as definition,
       (
           select coalesce(json_agg(pair order by count desc, from_app collate "C", to_app collate "C"), '[]')
             from pair
       ) as pairs,
       (select row_to_json(total) from total) as totals,
       page.*
  from page,
       requested
--include end_of_answer

-- name: switch_totals
-- The answer of `context_switches` for a page after all switches of the range: what is counted of the whole range, of
-- which spans are kept, and no list.
--include answer
with recursive wanted as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at,
           -- No rule changes what a switch is.
           null::text as rules
),
--include kept_spans
kept as materialized (
    select span.*
      from usable,
           activity.attention as span
     where span.user_id = %(user_id)s
       and span.first = usable.first
       and span.last = usable.last
),
-- Appending nothing gives an array without compression, because many parts of it are read. It is apart, so that nothing
-- else has to copy it.
kept_times as materialized (
    select first,
           switch_before || '{}'::bigint[] as switch_before
      from kept
),
--include rest_of_range
requested_ms as (
    select (extract(epoch from starts_at) * 1000)::bigint as starts,
           (extract(epoch from ends_at) * 1000)::bigint as ends
      from requested
),
--include reach_of_switches
--include timeline_days
--include labels_in_kept_days
named_label as materialized (
    select label_id,
           app
      from used_label
     union all
    select -n,
           app
      from marked_session
),
names as (
    select array(select distinct app collate "C" from named_label order by 1) as apps
),
label_map as (
    select array_agg(label_id order by label_id) as ids,
           array_agg(app_number order by label_id) as apps
      from (
               select label_id,
                      dense_rank() over (order by app collate "C")::integer as app_number
                 from named_label
           ) as numbered
),
--include walked_segments
--include walked_switches
--include switches
-- The numbers of the two applications are one key.
switch_in_range as materialized (
    select (select apps from label_map)[width_bucket(from_label, (select ids from label_map))] * bigint '1000000000'
               + (select apps from label_map)[width_bucket(to_label, (select ids from label_map))]
               as key,
           before_ms
      from switch
     where mod(width_bucket(at_ms, (select ms from requested_edges)), 2) = 1
),
-- Whole days in the range are read from rollups.
tracked as (
    select sum(ms)::bigint as ms
      from (
               select tracked_ms as ms
                 from kept
                union all
               select part.owned_ms
                 from requested,
                      lateral (
                          select owned_ms,
                                 starts_at
                            from activity.app_time
                           where user_id = %(user_id)s
                             and grain = 3
                             and starts_at >= requested.starts_at
                             and starts_at <= requested.ends_at - interval '24 hours'
                          offset 0
                      ) as part
                where (part.starts_at at time zone 'UTC')::date not in (select date from marked_day)
                union all
               select least(day.date_ms + segment.ends_ms, requested_ms.ends)
                          - greatest(day.date_ms + segment.starts_ms, requested_ms.starts)
                 from timeline_day as day,
                      requested_ms,
                      lateral unnest(day.starts, day.ends) as segment (starts_ms, ends_ms)
                where requested_ms.starts < day.date_ms + 86400000
                  and requested_ms.ends > day.date_ms
                  and (
                          requested_ms.starts > day.date_ms
                          or requested_ms.ends < day.date_ms + 86400000
                          or day.date in (select date from marked_day)
                      )
                  and day.date_ms + segment.starts_ms < requested_ms.ends
                  and day.date_ms + segment.ends_ms > requested_ms.starts
           ) as part
),
kept_pair as materialized (
    select first,
           (select apps from label_map)[width_bucket(from_label, (select ids from label_map))] * bigint '1000000000'
               + (select apps from label_map)[width_bucket(to_label, (select ids from label_map))]
               as key,
           count,
           before_ms,
           last
      from (
               select first,
                      unnest(switch_from) as from_label,
                      unnest(switch_to) as to_label,
                      unnest(switch_count) as count,
                      unnest(switch_ms) as before_ms,
                      unnest(switch_last) as last
                 from kept
           ) as pair
),
-- Sums of milliseconds as double precision are exact up to 285,000 years, and faster than those of bigint.
counted as materialized (
    select key,
           sum(count) as count,
           sum(before_ms::double precision)::bigint as before_ms
      from (
               select key,
                      1 as count,
                      before_ms
                 from switch_in_range
                union all
               select key,
                      count,
                      before_ms
                 from kept_pair
           ) as part
     group by key
),
-- Numbers are in the order of names.
frequent as materialized (
    select *
      from counted
     order by count desc,
              key
     limit 50
),
frequent_keys as (
    select array_agg(key order by key) as keys
      from frequent
),
frequent_kept_pair as materialized (
    select *
      from kept_pair
     where key = (select keys from frequent_keys)[width_bucket(key, (select keys from frequent_keys))]
),
-- The times before the switches of each frequent pair, and with the key -1 of all.
piece as materialized (
    select -1::bigint as key,
           before || '{}'::bigint[] as sorted
      from kept
     union all
    select -1,
           array_agg(before_ms order by before_ms)
      from switch_in_range
     union all
    select key,
           array_agg(before_ms order by before_ms)
      from switch_in_range
     where key = (select keys from frequent_keys)[width_bucket(key, (select keys from frequent_keys))]
     group by key
     union all
    select pair.key,
           kept_times.switch_before[pair.last - pair.count + 1:pair.last]
      from kept_times,
           lateral (select * from frequent_kept_pair as pair where pair.first = kept_times.first offset 0) as pair
),
--include narrow_brackets
--include medians
pair as (
    select (select apps from names)[(key / 1000000000)::integer] as from_app,
           (select apps from names)[mod(key, 1000000000)::integer] as to_app,
           frequent.count,
           round(frequent.before_ms::numeric / frequent.count)::bigint as average_before_ms,
           median.ms as median_before_ms
      from frequent
      join median using (key)
),
total as (
    select coalesce(sum(count), 0)::bigint as switch_count,
           round(sum(before_ms) / sum(count))::bigint as average_before_ms,
           (select ms from median where key = -1) as median_before_ms,
           round(coalesce(sum(count), 0) * 3600000.0 / nullif((select ms from tracked), 0), 1) as per_active_hour
      from counted
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       json_build_object('max_gap_ms', 300000, 'min_session_ms', 1000) as definition,
       (
           select coalesce(json_agg(pair order by count desc, from_app collate "C", to_app collate "C"), '[]')
             from pair
       ) as pairs,
       (select row_to_json(total) from total) as totals,
       '[]'::json as data,
       0 as count,
       %(limit)s::bigint as limit,
       false as has_more,
       null::text as next_cursor
  from wanted
--include end_of_answer

-- name: usable_spans
-- The longest spans of days within a range that can be used for what categories decide (kept.sql), none within another
-- one. Statements after this one read streaks of focus from them, and the rest of the range from its days.
--include answer
with
--include categories
--include rules_digest
wanted as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at,
           -- No span is shorter than three days.
           case
               when %(to)s::timestamptz - %(from)s::timestamptz >= interval '3 days'
                   then (select text from rules_digest)
               else ''
           end as rules
),
--include kept_spans
rest as (
    select lower(rest) as starts_at,
           upper(rest) as ends_at
      from wanted,
           lateral unnest(
               tstzmultirange(tstzrange(wanted.starts_at, wanted.ends_at))
                   - coalesce((select range_agg(tstzrange(starts_at, ends_at)) from usable), '{}')
                   -- A streak that began before the range may last into it.
                   + tstzmultirange(
                       tstzrange(
                           wanted.starts_at,
                           least(wanted.starts_at + interval '1 millisecond', wanted.ends_at)
                       )
                   )
           ) as rest
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       array(select first from usable order by first) as firsts,
       array(select last from usable order by first) as lasts,
       array(select svc.instant(starts_at) from rest order by starts_at) as starts,
       array(select svc.instant(ends_at) from rest order by starts_at) as ends
  from wanted
--include end_of_answer

-- fragment: range_of_streaks
-- `range_ms`: the range that is asked for, and the start of a page's newest streak.
-- gives: range_ms (before, ends, starts)
range_ms as materialized (
    select (extract(epoch from %(from)s::timestamptz) * 1000)::bigint as starts,
           (extract(epoch from %(to)s::timestamptz) * 1000)::bigint as ends,
           (extract(epoch from %(cursor_at)s::timestamptz) * 1000)::bigint as before
),

-- fragment: overlapping_streaks
-- `overlapping`: the streaks of `streak` that overlap the range. `total`: the time in the range that they fill. `breaker`:
-- the reasons for their ends, each with the application that broke them. `listed_streak`: those of the page, one more, and
-- the five longest, with the segments that they have in `streak`, if any.
-- needs: range_ms (before, ends, starts)
-- needs: streak (breaker_app, breaker_category, ended_ms, reason, started_ms)
-- gives: total (focus_ms, longest_ms, streak_count)
-- gives: breaker (app, category, count, lasted_ms, reason)
-- gives: listed_streak (ended_ms, ends, is_on_page, labels, started_ms, starts)
overlapping as materialized (
    select streak.*,
           streak.started_ms < range_ms.before as is_on_page,
           least(streak.ended_ms, range_ms.ends) - greatest(streak.started_ms, range_ms.starts) as clipped_ms
      from streak,
           range_ms
     where streak.started_ms < range_ms.ends
       and streak.ended_ms > range_ms.starts
),
total as (
    select count(*) as streak_count,
           coalesce(sum(clipped_ms), 0)::bigint as focus_ms,
           coalesce(max(clipped_ms), 0) as longest_ms
      from overlapping
),
breaker as (
    select reason,
           breaker_app as app,
           breaker_category as category,
           count(*) as count,
           sum(ended_ms - started_ms)::bigint as lasted_ms
      from overlapping
     where reason in ('distraction', 'neutral', 'idle')
     group by reason,
              breaker_app,
              breaker_category
),
listed_streak as materialized (
    select *
      from overlapping
     where started_ms in (
               (
                   select started_ms
                     from overlapping
                    where is_on_page
                    order by started_ms desc
                    limit %(limit)s::bigint + 1
               )
               union all
               (
                   select started_ms
                     from overlapping
                    order by ended_ms - started_ms desc,
                             started_ms
                    limit 5
               )
           )
),

-- fragment: answer_of_streaks
-- What is known of the streaks of `overlapping`, as attention.py adds it up, with a line about each of `described_streak`.
-- needs: breaker (app, category, count, lasted_ms, reason)
-- needs: described_streak (app_count, breaker_app, breaker_category, broken_ms, ended_ms, gap_ms, is_on_page, productive_ms,
--     reason, started_ms, top_app, top_category)
-- needs: total (focus_ms, longest_ms, streak_count)
line as (
    select is_on_page,
           started_ms,
           ended_ms,
           productive_ms,
           top_app,
           top_category,
           app_count,
           reason,
           broken_ms,
           breaker_app,
           breaker_category,
           gap_ms
      from described_streak
)
select (select row_to_json(total) from total) as totals,
       (select coalesce(json_agg(breaker), '[]') from breaker) as breakers,
       (select coalesce(json_agg(line), '[]') from line) as lines,
       %(limit)s::bigint as limit

-- name: streaks_in_rest
-- The streaks of focus that overlap some stretches of a range, except those that begin in the spans of it between these:
-- what they add up to, the newest before a cursor, and the longest ones, each whole and with the reason for its end.
--include answer
with recursive
--include range_of_streaks
span_edges as (
    select array(
               select (extract(epoch from edge.date::timestamp at time zone 'UTC') * 1000)::bigint
                 from unnest(%(firsts)s::date[], %(lasts)s::date[]) as span (first, last),
                      lateral (values (span.first), (span.last + 1)) as edge (date)
                order by 1
           ) as ms
),
requested as (
    select starts_at,
           ends_at
      from unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) as rest (starts_at, ends_at)
),
--include reach_of_streaks
--include timeline_days
--include categories
--include rule_inputs_in_days
--include decided_category
--include decided_labels
--include walked_streaks
known_streak as (
    select walked_streak.*,
           (select apps from names)[(select apps from label_map)[breaker.place]] as breaker_app,
           (select categories from names)[(select categories from label_map)[breaker.place]] as breaker_category
      from walked_streak,
           lateral width_bucket(breaker_label, (select ids from label_map)) as breaker (place)
     where mod(width_bucket(started_ms, (select ms from span_edges)), 2) = 0
),
--include streak_ends
--include overlapping_streaks
--include use_in_streaks
described_streak as (
    select *
      from listed_streak
      join use_in_streak using (started_ms)
),
--include answer_of_streaks
--include end_of_answer

-- name: kept_streaks
-- The same of the streaks that begin in given spans, all of which can be used.
--include answer
with
--include range_of_streaks
span as materialized (
    select kept.first,
           kept.streak_started,
           kept.streak_ended,
           kept.streak_reason,
           kept.streak_broken,
           kept.streak_gap,
           kept.streak_breaker_app,
           kept.streak_breaker_category,
           kept.streak_productive,
           kept.streak_top_app,
           kept.streak_top_category,
           kept.streak_apps
      from unnest(%(firsts)s::date[], %(lasts)s::date[]) as given (first, last),
           activity.attention as kept
     where kept.user_id = %(user_id)s
       and kept.first = given.first
       and kept.last = given.last
),
known_streak as (
    select span.first,
           streak.*
      from span,
           lateral unnest(
               span.streak_started,
               span.streak_ended,
               span.streak_reason,
               span.streak_broken,
               span.streak_gap,
               span.streak_breaker_app,
               span.streak_breaker_category
           ) with ordinality as streak (
               started_ms,
               ended_ms,
               known_reason,
               broken_ms,
               known_gap_ms,
               breaker_app,
               breaker_category,
               n
           )
),
--include streak_ends
--include overlapping_streaks
described_streak as (
    select listed_streak.*,
           span.streak_productive[listed_streak.n] as productive_ms,
           span.streak_top_app[listed_streak.n] as top_app,
           span.streak_top_category[listed_streak.n] as top_category,
           span.streak_apps[listed_streak.n] as app_count
      from listed_streak,
           span
     where listed_streak.first = span.first
),
--include answer_of_streaks
--include end_of_answer

-- name: switch_costs
-- Detours: how long productive work waits after it was left for something else, by the application that it was left
-- for. A detour belongs to the range in which it begins. One that a pause ends has no length.
--include answer
with recursive
--include categories
--include rules_digest
wanted as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at,
           -- No span is shorter than three days.
           case
               when %(to)s::timestamptz - %(from)s::timestamptz >= interval '3 days'
                   then (select text from rules_digest)
               else ''
           end as rules
),
--include kept_spans
-- Appending nothing gives an array without compression, because many parts of it are read.
kept as materialized (
    select span.detour_label as labels,
           span.detour_count,
           span.detour_returned,
           span.detour_ms,
           span.detour_last,
           span.detour_away || '{}'::bigint[] as detour_away,
           span.away
      from usable,
           activity.attention as span
     where span.user_id = %(user_id)s
       and span.first = usable.first
       and span.last = usable.last
),
--include rest_of_range
--include reach_of_streaks
--include timeline_days
--include rule_inputs_in_kept_days
--include decided_category
--include decided_labels
--include placed_segments
--include detours
-- The number of an application and that of a category are one key.
detour_in_range as materialized (
    select (select apps from label_map)[place] * bigint '1000000000' + (select categories from label_map)[place] as key,
           away_ms
      from detour
     where mod(width_bucket(began_ms, (select ms from requested_edges)), 2) = 1
),
detour_part as materialized (
    select key,
           count(*) as count,
           count(away_ms) as returned_count,
           coalesce(sum(away_ms), 0) as away_ms,
           coalesce(array_agg(away_ms order by away_ms) filter (where away_ms is not null), '{}') as sorted
      from detour_in_range
     group by key
     union all
    select (select apps from label_map)[place] * bigint '1000000000' + (select categories from label_map)[place],
           count,
           returned_count,
           away_ms,
           sorted
      from (
               select width_bucket(part.label_id, (select ids from label_map)) as place,
                      part.count,
                      part.returned_count,
                      part.away_ms,
                      detour_away[part.last - part.returned_count + 1:part.last] as sorted
                 from kept,
                      lateral unnest(labels, detour_count, detour_returned, detour_ms, detour_last)
                          as part (label_id, count, returned_count, away_ms, last)
               offset 0
           ) as kept_part
),
-- With the key -1 the lengths of all.
piece as materialized (
    select key,
           sorted
      from detour_part
     union all
    select -1,
           away || '{}'::bigint[]
      from kept
     union all
    select -1,
           array_agg(away_ms order by away_ms)
      from detour_in_range
     where away_ms is not null
    having count(*) > 0
),
--include brackets
--include medians
total as (
    select coalesce(sum(count), 0)::bigint as count,
           coalesce(sum(returned_count), 0)::bigint as returned_count,
           coalesce(sum(away_ms), 0)::bigint as total_ms,
           round(sum(away_ms) / nullif(sum(returned_count), 0))::bigint as average_ms,
           (select ms from median where key = -1) as median_ms
      from detour_part
),
row as (
    select (select apps from names)[(key / 1000000000)::integer] as app,
           (select categories from names)[mod(key, 1000000000)::integer] as category,
           sum(count)::bigint as count,
           sum(returned_count)::bigint as returned_count,
           svc.percent(sum(count)::bigint, (select count from total)) as percent,
           sum(away_ms)::bigint as total_ms,
           round(sum(away_ms) / nullif(sum(returned_count), 0))::bigint as average_ms,
           max(median.ms) as median_ms
      from detour_part
      left join median using (key)
     group by key
     -- Numbers are in the order of names.
     order by sum(away_ms) desc,
              sum(count) desc,
              key
     limit 50
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       json_build_object('max_gap_ms', 300000, 'min_detour_ms', 1000) as definition,
       (
           select coalesce(
                      json_agg(
                          row order by total_ms desc, count desc, app collate "C", category collate "C"
                      ),
                      '[]'
                  )
             from row
       ) as data,
       (select row_to_json(total) from total) as totals
  from wanted
--include end_of_answer
