-- The values of all metrics for days, weeks and other slots. Correlation, goals, summaries and tools use them, with
-- the same definitions as the endpoints about a single domain.
--
-- Each domain has a statement of its own, and health has two. It returns the value of each slot, the values of periods
-- of days, and for activity the values that goals reached. Its parameters:
--
--     dates, starts, ends    slots in order of time: days, or longer slots with the date of their first day
--     metrics                names of metrics of the domain
--     counters, reported     metrics that are counted, and the days on which any tracker reported anything: on
--                            those days a count without rows is 0, on other days it is unknown
--     kinds, period_firsts, period_lasts    periods of days, by their names
--     goals                  ids of goals in these metrics, in statements about activity

-- name: measured_app_time
-- Metrics of time in applications. Days of periods with any such time are active.
--include answer
with
--include requested_slots
--include spans
--include categories
--include rule_inputs_in_spans
--include decided_category
--include app_time
--include app_measures
--include reached_goals
-- Only goals need the time of each application; nothing else reads its thousands of rows.
per_slot as (
    select spent.position,
           nullif(sum(spent.owned_ms), 0) as tracked_ms,
           nullif(sum(spent.owned_ms) filter (where known.score >= 1), 0) as productive_ms,
           nullif(sum(spent.owned_ms) filter (where coalesce(known.score, 0) = 0), 0) as neutral_ms,
           nullif(sum(spent.owned_ms) filter (where known.score <= -1), 0) as distracted_ms,
           sum(spent.started + spent.continued) as session_count,
           sum(spent.continued) as continued
      from spent
      left join score as known using (category)
     group by spent.position
),
measured as (
    select per_slot.position,
           metric_value.metric,
           metric_value.value::double precision as value
      from per_slot,
           lateral (
               values ('tracked_ms', tracked_ms), ('productive_ms', productive_ms), ('neutral_ms', neutral_ms),
                      ('distracted_ms', distracted_ms), ('session_count', session_count)
           ) as metric_value (metric, value)
),
-- A session that lasts over midnight is one session of a period, if the slot before is of the period too.
preceded_slot as (
    select position,
           lag(date) over (order by position) as date_before
      from slot
     where starts_at < ends_at
),
summed as (
    select period.kind,
           measured.metric,
           sum(measured.value) - coalesce(
               sum(again.continued)
                   filter (where preceded_slot.date_before between period.first_day and period.last_day),
               0
           ) as sum
      from period
      join slot on slot.date between period.first_day and period.last_day
      join measured using (position)
      left join preceded_slot using (position)
      left join (select position, 'session_count' as metric, continued from per_slot) as again
           using (position, metric)
     group by period.kind,
              measured.metric
),
--include values_of_days
--include rendered_days
select days,
       periods,
       (
           select json_agg(distinct slot.date)
             from per_slot
             join slot using (position)
            where per_slot.tracked_ms > 0
              and slot.date is not null
              and exists (select from period)
       ) as active,
--include rendered_goals
  from rendered_days
--include end_of_answer

-- name: measured_coding
-- Metrics of time in editors. Days of periods with any such time are active.
--include answer
with
--include requested_slots
--include spans
--include runs
--include coding_time
--include coding_measures
--include reached_goals
--include measured_slots
--include sums_of_periods
--include values_of_days
--include rendered_days
select days,
       periods,
       (
           select json_agg(distinct slot.date)
             from coding_spent
             join slot using (position)
            where coding_spent.owned_ms > 0
              and slot.date is not null
              and exists (select from period)
       ) as active,
--include rendered_goals
  from rendered_days
--include end_of_answer

-- name: measured_switches
-- The number of switches between applications.
--include answer
with
--include requested_slots
--include switched
--include switch_measures
--include reached_goals
--include measured_slots
--include sums_of_periods
--include values_of_days
--include rendered_days
select days,
       periods,
--include rendered_goals
  from rendered_days
--include end_of_answer

-- name: measured_focus
-- Metrics of streaks of focus.
--include answer
with
--include requested_slots
--include categories
--include focused
--include focus_measures
--include reached_goals
--include measured_slots
-- A streak that lasts over midnight is one streak of a period, if nothing lies between the slots.
longest as (
    select period.kind,
           max(
               least(streak.ended_ms, edge.ends_ms) - greatest(streak.started_ms, edge.starts_ms)
           ) as ms
      from period
     cross join lateral (
               select (extract(epoch from min(starts_at)) * 1000)::bigint as starts_ms,
                      (extract(epoch from max(ends_at)) * 1000)::bigint as ends_ms
                 from (
                          select starts_at,
                                 ends_at,
                                 -- Slots in a row have the same distance from their places in the order.
                                 position - row_number() over (order by position) as row
                            from slot
                           where date between period.first_day and period.last_day
                      ) as of_period
                group by row
           ) as edge
      join streak
        on streak.started_ms < edge.ends_ms
       and streak.ended_ms > edge.starts_ms
     group by period.kind
),
summed as (
    select period.kind,
           measured.metric,
           case
               when measured.metric = 'longest_focus_ms' then max(longest.ms)
               else sum(measured.value)
           end as sum
      from period
      join slot on slot.date between period.first_day and period.last_day
      join measured using (position)
      left join longest using (kind)
     group by period.kind,
              measured.metric
),
--include values_of_days
--include rendered_days
select days,
       periods,
--include rendered_goals
  from rendered_days
--include end_of_answer

-- name: measured_code
-- Metrics of the events of code hosts.
--include answer
with
--include requested_slots
--include requested_days
--include slots
code_event as (
    select width_bucket(occurred_at, slots.starts) as position,
           type,
           additions
      from code.event,
           slots
     where user_id = %(user_id)s
       and occurred_at >= (select starts_at from requested)
       and occurred_at < (select ends_at from requested)
),
measure as (
    select position,
           case type
               when 'commit' then 'commits'
               when 'pull_request' then 'pull_requests'
               else 'reviews'
           end as metric,
           count(*)::double precision as value
      from code_event
     where exists (select from wanted where metric in ('commits', 'pull_requests', 'reviews'))
     group by position,
              type
     union all
    select position,
           'lines_added',
           coalesce(sum(additions), 0)
      from code_event
     where type = 'commit'
       and exists (select from wanted where metric = 'lines_added')
     group by position
),
--include measured_slots
--include sums_of_periods
--include values_of_days
--include rendered_days
select days,
       periods
  from rendered_days
--include end_of_answer

-- name: measured_recovery
-- Metrics of sleep, recovery and strain. They are apart from those of samples: most of the time of a short answer is
-- spent on the start of its plan.
--include answer
with
--include requested_slots
requested_date as (
    select min(date) as first,
           max(date) as last
      from slot
),
--include recovery_days
--include recovery_measures
measure as (
    select position,
           metric,
           value
      from recovery_measure
),
--include measured_slots
--include sums_of_periods
--include values_of_days
--include rendered_days
select days,
       periods
  from rendered_days
--include end_of_answer

-- name: measured_health
-- The other metrics of health, which have samples.
--include answer
with
--include requested_slots
--include requested_days
--include slots
--include added_up_metrics
--include health_amounts
--include health_measures
measure as (
    select position,
           metric,
           value
      from health_measure
),
--include measured_slots
--include sums_of_periods
--include values_of_days
--include rendered_days
select days,
       periods
  from rendered_days
--include end_of_answer

-- name: measured_music
-- Metrics of music.
--include answer
with
--include requested_slots
--include requested_days
--include slots
measure as (
    select heard.position,
           metric_value.metric,
           metric_value.value
      from (
               select width_bucket(listened_at, slots.starts) as position,
                      sum(coalesce(played_ms, duration_ms, 0)) as listened_ms,
                      count(*) as play_count
                 from music.listen,
                      slots
                where user_id = %(user_id)s
                  and listened_at >= (select starts_at from requested)
                  and listened_at < (select ends_at from requested)
                group by 1
           ) as heard,
           lateral (
               values ('listened_ms', heard.listened_ms), ('play_count', heard.play_count)
           ) as metric_value (metric, value)
     where exists (select from wanted where metric in ('listened_ms', 'play_count'))
),
--include measured_slots
--include sums_of_periods
--include values_of_days
--include rendered_days
select days,
       periods
  from rendered_days
--include end_of_answer

-- name: measured_places
-- Metrics of places and distances.
--include answer
with
--include requested_slots
--include requested_days
--include slots
--include stays
--include steps
measure as (
    select touched.position,
           'place_count' as metric,
           count(distinct stay.place_id)::double precision as value
      from stay,
           slots,
           lateral generate_series(
               greatest(width_bucket(stay.started_at, slots.starts), 1),
               width_bucket(stay.ended_at, slots.starts)
           ) as touched (position)
     where exists (select from wanted where metric = 'place_count')
       and stay.started_at < slots.ends[touched.position]
       and (
               stay.ended_at > slots.starts[touched.position]
               or stay.started_at >= slots.starts[touched.position]
           )
     group by touched.position
     union all
    select position,
           'distance_m',
           coalesce(distance_m, 0)
      from step
     where exists (select from wanted where metric = 'distance_m')
),
--include measured_slots
--include sums_of_periods
--include values_of_days
--include rendered_days
select days,
       periods
  from rendered_days
--include end_of_answer

-- name: measured_content
-- Metrics of calendars and of what was watched.
--include answer
with
--include requested_slots
--include requested_days
--include slots
--include meetings
--include met
measure as (
    select met.position,
           'meeting_ms' as metric,
           sum(svc.duration_ms(upper(time) - lower(time))) as value
      from met,
           lateral unnest(met.times) as time
     where exists (select from wanted where metric = 'meeting_ms')
     group by met.position
     union all
    select width_bucket(watched_at, slots.starts),
           'watch_ms',
           sum(watch_ms)
      from content.play,
           slots
     where user_id = %(user_id)s
       and exists (select from wanted where metric = 'watch_ms')
       and watched_at >= (select starts_at from requested)
       and watched_at < (select ends_at from requested)
     group by 1
),
--include measured_slots
--include sums_of_periods
--include values_of_days
--include rendered_days
select days,
       periods
  from rendered_days
--include end_of_answer
