-- name: context_switches
-- Switches from one application to another in a range, the newest first; the pairs of applications between
-- which they happened most often; and how long they were used before, over the whole range.
with asked as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
--include unbroken
--include categories
--include sessions_in_bounds
--include judged
--include app_timeline
--include switches
happened as (
    select switch.*,
           svc.duration_ms(switch.before) as before_ms
      from switch
     cross join asked
     where switch.at >= asked.starts_at
       and switch.at < asked.ends_at
),
tracked as (
    select svc.duration_ms(
               sum(
                   least(segment.ends_at, asked.ends_at)
                   - greatest(segment.starts_at, asked.starts_at)
               )
           ) as ms
      from segment
     cross join asked
     where segment.starts_at < asked.ends_at
       and segment.ends_at > asked.starts_at
),
pair as (
    select from_app,
           to_app,
           count(*) as count,
           round(avg(before_ms))::bigint as average_before_ms,
           -- As a number, since a double would be rounded to the even neighbour.
           round(percentile_cont(0.5) within group (order by before_ms)::numeric)::bigint
               as median_before_ms
      from happened
     group by from_app,
              to_app
     order by count(*) desc,
              from_app collate "C",
              to_app collate "C"
     limit 50
),
total as (
    select count(*) as switch_count,
           round(avg(before_ms))::bigint as average_before_ms,
           round(percentile_cont(0.5) within group (order by before_ms)::numeric)::bigint
               as median_before_ms,
           round(count(*) * 3600000.0 / nullif((select ms from tracked), 0), 1) as per_active_hour
      from happened
),
found as (
    select shown.at,
           shown.id,
           row_to_json(line) as line
      from (
               -- No two happen at once, so any id will do for the cursor.
               select happened.*,
                      uuid '00000000-0000-0000-0000-000000000000' as id
                 from happened
                where (at, uuid '00000000-0000-0000-0000-000000000000')
                      < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
                order by at desc
                limit %(limit)s::bigint + 1
           ) as shown
     cross join lateral (
               select svc.instant(shown.at) as at,
                      shown.from_app,
                      shown.to_app,
                      shown.from_category,
                      shown.to_category,
                      shown.before_ms
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
 cross join asked

-- name: focus_streaks
-- Streaks of focus that overlap a range, the newest first, each whole and with what broke it; and how much
-- of the range they fill.
with asked as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
--include unbroken
--include categories
--include sessions_in_bounds
--include judged
--include app_timeline
--include switches
--include streaks
overlapping as (
    select streak.*,
           svc.duration_ms(
               least(streak.ended_at, asked.ends_at) - greatest(streak.started_at, asked.starts_at)
           ) as clipped_ms
      from streak
     cross join asked
     where streak.started_at < asked.ends_at
       and streak.ended_at > asked.starts_at
       and asked.starts_at < asked.ends_at
),
total as (
    select count(*) as streak_count,
           coalesce(sum(clipped_ms), 0)::bigint as focus_ms,
           coalesce(max(clipped_ms), 0) as longest_ms,
           round(avg(clipped_ms))::bigint as average_ms
      from overlapping
),
shown as (
    -- No two start at once, so any id will do for the cursor.
    select overlapping.*,
           uuid '00000000-0000-0000-0000-000000000000' as id
      from overlapping
     where (started_at, uuid '00000000-0000-0000-0000-000000000000')
           < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
     order by started_at desc
     limit %(limit)s::bigint + 1
),
part as (
    select shown.started_at,
           segment.app,
           segment.category,
           segment.ends_at - segment.starts_at as own,
           switch.at is not null as is_switch
      from shown
     cross join lateral generate_series(shown.first_position, shown.last_position) as inside (position)
      join segment using (position)
      -- A run begins where one of its segments does.
      left join switch on switch.at = segment.starts_at
),
top_app as (
    select distinct on (started_at)
           started_at,
           app,
           count(*) over (partition by started_at) as app_count,
           sum(switch_count) over (partition by started_at)::bigint as switch_count
      from (
               select started_at,
                      app,
                      sum(own) as own,
                      count(*) filter (where is_switch) as switch_count
                 from part
                group by started_at,
                         app
           ) as used
     order by started_at,
              own desc,
              app collate "C"
),
top_category as (
    select distinct on (started_at)
           started_at,
           category
      from (
               select started_at,
                      category,
                      sum(own) as own
                 from part
                group by started_at,
                         category
           ) as used
     order by started_at,
              own desc,
              category collate "C"
),
found as (
    select shown.started_at as at,
           shown.id,
           row_to_json(line) as line
      from shown
      join top_app using (started_at)
      join top_category using (started_at)
      left join segment as breaker on breaker.position = shown.breaker_position
     cross join lateral (
               select svc.instant(shown.started_at) as started_at,
                      svc.instant(shown.ended_at) as ended_at,
                      svc.duration_ms(shown.ended_at - shown.started_at) as duration_ms,
                      svc.duration_ms(shown.productive) as productive_ms,
                      top_app.app as top_app,
                      top_category.category as top_category,
                      top_app.app_count,
                      top_app.switch_count,
                      json_build_object(
                          'reason', shown.reason,
                          'at', svc.instant(shown.broken_at),
                          'app', breaker.app,
                          'category', breaker.category,
                          'gap_ms', svc.duration_ms(shown.gap)
                      ) as broken_by
           ) as line
),
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
 cross join asked
