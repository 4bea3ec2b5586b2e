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
                 from timeline_day as day
                cross join requested_ms
                cross join lateral unnest(day.starts, day.ends) as segment (starts_ms, ends_ms)
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
           ) as newest
     cross join lateral (
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
           select coalesce(
                      json_agg(
                          pair order by count desc, from_app collate "C", to_app collate "C"
                      ),
                      '[]'
                  )
             from pair
       ) as pairs,
       (select row_to_json(total) from total) as totals,
       page.*
  from page
 cross join requested
--include end_of_answer

-- fragment: overlapping_streaks
-- `overlapping`: the streaks of focus that overlap the range of `requested`. `total`: the time in the range that they
-- fill. The statement begins `with recursive`.
-- needs: requested (ends_at, starts_at)
-- gives: total (average_ms, focus_ms, longest_ms, streak_count)
-- gives: names (apps, categories)
-- gives: label_map (apps, categories, ids, scores)
-- gives: overlapping (breaker_label, broken_ms, clipped_ms, ended_ms, ends, gap_ms, labels, reason, started_ms,
--     starts)
requested_ms as materialized (
    select (extract(epoch from starts_at) * 1000)::bigint as starts,
           (extract(epoch from ends_at) * 1000)::bigint as ends
      from requested
),
--include reach_of_streaks
--include timeline_days
--include categories
--include rule_inputs_in_days
--include decided_category
--include decided_labels
--include streaks
overlapping as (
    select streak.*,
           least(streak.ended_ms, requested_ms.ends) - greatest(streak.started_ms, requested_ms.starts)
               as clipped_ms
      from streak
     cross join requested_ms
     where streak.started_ms < requested_ms.ends
       and streak.ended_ms > requested_ms.starts
       and requested_ms.starts < requested_ms.ends
),
total as (
    select count(*) as streak_count,
           coalesce(sum(clipped_ms), 0)::bigint as focus_ms,
           coalesce(max(clipped_ms), 0) as longest_ms,
           round(avg(clipped_ms))::bigint as average_ms
      from overlapping
),

-- fragment: streak_breakers
-- `broken`: the streaks of `overlapping` that were broken; one that lasts until the end of the data was not. `breaker`:
-- the reasons, each with the application in use. `longest`: the longest streak, whole. Needs the fragment
-- `overlapping_streaks`.
-- needs: label_map (apps, categories, ids)
-- needs: names (apps, categories)
-- needs: overlapping (breaker_label, ended_ms, reason, started_ms)
-- gives: broken (app, category, lasted_ms, reason)
-- gives: breaker (app, average_before_ms, category, count, percent, reason)
-- gives: longest (duration_ms, ended_at, started_at)
broken as (
    select overlapping.reason,
           (select apps from names)[(select apps from label_map)[breaker.place]] as app,
           (select categories from names)[(select categories from label_map)[breaker.place]] as category,
           overlapping.ended_ms - overlapping.started_ms as lasted_ms
      from overlapping
     cross join lateral width_bucket(overlapping.breaker_label, (select ids from label_map)) as breaker (place)
     where overlapping.reason in ('distraction', 'neutral', 'idle')
),
breaker as (
    select reason,
           app,
           category,
           count(*) as count,
           svc.percent(count(*), (select count(*) from broken)) as percent,
           round(avg(lasted_ms))::bigint as average_before_ms
      from broken
     group by reason,
              app,
              category
),
longest as (
    select svc.instant(timestamptz 'epoch' + started_ms * interval '1 millisecond') as started_at,
           svc.instant(timestamptz 'epoch' + ended_ms * interval '1 millisecond') as ended_at,
           ended_ms - started_ms as duration_ms
      from overlapping
     order by ended_ms - started_ms desc,
              started_ms
     limit 1
),
-- fragment: lines_of_streaks
-- `streak_line`: what an answer has about each of `listed_streak`, which are some of `overlapping`. Needs the fragment
-- `overlapping_streaks`.
-- needs: label_map (apps, categories, ids, scores)
-- needs: listed_streak (breaker_label, broken_ms, ended_ms, ends, gap_ms, labels, reason, started_ms, starts)
-- needs: names (apps, categories)
-- gives: streak_line (app_count, broken_by, duration_ms, ended_at, productive_ms, started_at, started_ms, top_app,
--     top_category)
part as materialized (
    select listed_streak.started_ms,
           (select apps from label_map)[segment.place] as app,
           (select categories from label_map)[segment.place] as category,
           (select scores from label_map)[segment.place] as score,
           segment.own_ms
      from listed_streak
     cross join lateral (
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
top as (
    select started_ms,
           (array_agg(app order by own_ms desc, app) filter (where app is not null))[1] as app,
           (array_agg(category order by own_ms desc, category) filter (where category is not null))[1]
               as category,
           count(app) as app_count,
           (sum(productive_ms) filter (where category is not null))::bigint as productive_ms
      from used
     group by started_ms
),
streak_line as (
    select listed_streak.started_ms,
           svc.instant(timestamptz 'epoch' + listed_streak.started_ms * interval '1 millisecond') as started_at,
           svc.instant(timestamptz 'epoch' + listed_streak.ended_ms * interval '1 millisecond') as ended_at,
           listed_streak.ended_ms - listed_streak.started_ms as duration_ms,
           top.productive_ms,
           (select apps from names)[top.app] as top_app,
           (select categories from names)[top.category] as top_category,
           top.app_count,
           json_build_object(
               'reason', listed_streak.reason,
               'at', svc.instant(timestamptz 'epoch' + listed_streak.broken_ms * interval '1 millisecond'),
               'app', (select apps from names)[(select apps from label_map)[breaker.place]],
               'category', (select categories from names)[(select categories from label_map)[breaker.place]],
               'gap_ms', listed_streak.gap_ms
           ) as broken_by
      from listed_streak
      join top using (started_ms)
     cross join lateral width_bucket(listed_streak.breaker_label, (select ids from label_map)) as breaker (place)
),

-- fragment: page_of_streaks
-- `list_row`: the streaks of a page as lines of the answer, each with the reason for its end. Another statement counts
-- the switches in each of them (attention.py). Needs the fragment `overlapping_streaks`.
-- needs: label_map (apps, categories, ids, scores)
-- needs: names (apps, categories)
-- needs: overlapping (breaker_label, broken_ms, ended_ms, ends, gap_ms, labels, reason, started_ms, starts)
-- gives: list_row (at, id, line)
listed_streak as (
    select *
      from overlapping
     where started_ms < (extract(epoch from %(cursor_at)s::timestamptz) * 1000)::bigint
     order by started_ms desc
     limit %(limit)s::bigint + 1
),
--include lines_of_streaks
list_row as (
    -- No two streaks have the same start, so the cursor needs no id.
    select timestamptz 'epoch' + streak_line.started_ms * interval '1 millisecond' as at,
           uuid '00000000-0000-0000-0000-000000000000' as id,
           row_to_json(line) as line
      from streak_line
     cross join lateral (
               select streak_line.started_at,
                      streak_line.ended_at,
                      streak_line.duration_ms,
                      streak_line.productive_ms,
                      streak_line.top_app,
                      streak_line.top_category,
                      streak_line.app_count,
                      null::bigint as switch_count,
                      streak_line.broken_by
           ) as line
),

-- name: focus_streaks
-- Streaks of focus that overlap a range, the newest first, each whole and with the reason for its end; and the time
-- in the range that they fill.
--include answer
with recursive requested as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
--include overlapping_streaks
--include page_of_streaks
--include page
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       json_build_object(
           'min_streak_ms', 600000,
           'idle_gap_ms', 300000,
           'distraction_ms', 30000,
           'neutral_tolerance_ms', 120000
       ) as definition,
       (select row_to_json(total) from total) as totals,
       page.*
  from page
 cross join requested
--include end_of_answer

-- name: focus_breaks
-- What broke the streaks of focus that overlap a range, the most frequent reason first, and the longest streaks.
--include answer
with recursive requested as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
--include overlapping_streaks
--include streak_breakers
listed_streak as (
    select *
      from overlapping
     order by ended_ms - started_ms desc,
              started_ms
     limit 5
),
--include lines_of_streaks
listed as (
    select row_to_json(breaker) as line,
           row_number() over (
               order by count desc,
                        average_before_ms desc,
                        reason,
                        app collate "C",
                        category collate "C"
           ) as place
      from breaker
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       (select row_to_json(total) from total) as totals,
       (select row_to_json(longest) from longest) as longest,
       (
           select coalesce(
                      json_agg(
                          json_build_object(
                              'started_at', started_at,
                              'ended_at', ended_at,
                              'duration_ms', duration_ms,
                              'productive_ms', productive_ms,
                              'top_app', top_app,
                              'top_category', top_category,
                              'app_count', app_count,
                              'broken_by', broken_by
                          )
                          order by duration_ms desc,
                                   started_ms
                      ),
                      '[]'
                  )
             from streak_line
       ) as longest_streaks,
       (select count(*) from broken) as broken_count,
       (select coalesce(json_agg(line order by place), '[]') from listed where place <= 100) as data
  from requested
--include end_of_answer

-- name: switch_costs
-- Detours: how long productive work waits after it was left for something else, by the application that it was left
-- for. A detour belongs to the range in which it begins. One that a pause ends has no length.
--include answer
with recursive requested as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
requested_ms as (
    select (extract(epoch from starts_at) * 1000)::bigint as starts,
           (extract(epoch from ends_at) * 1000)::bigint as ends
      from requested
),
--include reach_of_streaks
--include timeline_days
--include categories
--include rule_inputs_in_days
--include decided_category
--include decided_labels
--include placed_segments
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
     cross join requested_ms
     where is_productive
       and own_ms >= 1000
       and began_ms >= requested_ms.starts
       and began_ms < requested_ms.ends
),
by_app as (
    select (select apps from names)[(select apps from label_map)[place]] as app,
           (select categories from names)[(select categories from label_map)[place]] as category,
           away_ms
      from detour
),
total as (
    select count(*) as count,
           count(away_ms) as returned_count,
           coalesce(sum(away_ms), 0)::bigint as total_ms,
           round(avg(away_ms))::bigint as average_ms,
           round(percentile_cont(0.5) within group (order by away_ms)::numeric)::bigint as median_ms
      from by_app
),
row as (
    select app,
           category,
           count(*) as count,
           count(away_ms) as returned_count,
           svc.percent(count(*), (select count from total)) as percent,
           coalesce(sum(away_ms), 0)::bigint as total_ms,
           round(avg(away_ms))::bigint as average_ms,
           round(percentile_cont(0.5) within group (order by away_ms)::numeric)::bigint as median_ms
      from by_app
     group by app,
              category
     order by total_ms desc,
              count(*) desc,
              app collate "C",
              category collate "C"
     limit 50
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       json_build_object('max_gap_ms', 300000, 'min_detour_ms', 1000) as definition,
       (
           select coalesce(
                      json_agg(
                          row
                          order by total_ms desc,
                                   count desc,
                                   app collate "C",
                                   category collate "C"
                      ),
                      '[]'
                  )
             from row
       ) as data,
       (select row_to_json(total) from total) as totals
  from requested
--include end_of_answer
