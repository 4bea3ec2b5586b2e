-- The fragments of the statements of metrics (measured.sql), some of which summaries and health include too: the
-- measures of slots by domain, and their sums and means.

-- fragment: requested_days
-- `requested`: from the start of the first day to the end of the last; no row if there are no days.
-- needs: slot (ends_at, starts_at)
-- gives: requested (ends_at, starts_at)
requested as (
    select coalesce(min(starts_at), '-infinity') as starts_at,
           coalesce(max(ends_at), '-infinity') as ends_at
      from slot
),

-- fragment: stays
-- `stay`: check-ins and visits that overlap or lie near the range of `requested`, except those that were declined.
-- Visits may be long; see location_events.
-- needs: requested (ends_at, starts_at)
-- gives: stay (ended_at, event_id, place_id, started_at)
stay as (
    select event_id,
           place_id,
           started_at,
           case type when 'visit' then coalesce(ended_at, started_at) else started_at end as ended_at
      from location.event
     where user_id = %(user_id)s
       and status <> 'declined'
       and started_at > (select starts_at - interval '24 hours' from requested)
       and started_at < (select ends_at from requested)
     union all
    select event_id,
           place_id,
           started_at,
           ended_at
      from location.event
     where user_id = %(user_id)s
       and status <> 'declined'
       and type = 'visit'
       and ended_at - started_at > interval '24 hours'
       and ended_at > (select starts_at from requested)
       and started_at <= (select starts_at - interval '24 hours' from requested)
),

-- fragment: steps
-- `step`: the distance in each slot that has a sufficiently exact point: the sum of the distances from each such point to
-- the one before in the same slot, null if there is only one. No row without a row of `slots`. A search of the index for
-- each slot, and arrays instead of a window, take a third less time for the tens of thousands of points of a year.
-- needs: slot (ends_at, position, starts_at)
-- needs: slots (starts)
-- gives: step (distance_m, position)
walk as (
    select slot.position,
           located.latitudes,
           located.longitudes
      from slots,
           slot,
           lateral (
               select array_agg(svc.degrees(latitude) order by recorded_at, point_id) as latitudes,
                      array_agg(svc.degrees(longitude) order by recorded_at, point_id) as longitudes
                 from location.point
                where user_id = %(user_id)s
                  and recorded_at >= slot.starts_at
                  and recorded_at < slot.ends_at
                  and accuracy_m <= 100
           ) as located
     where located.latitudes is not null
),
step as (
    select position,
           (
               select sum(svc.distance_m(latitudes[n], longitudes[n], latitudes[n - 1], longitudes[n - 1]))
                 from generate_series(2, cardinality(latitudes)) as n
           ) as distance_m
      from walk
),

-- fragment: meetings
-- `meeting`: meetings that overlap or lie near the range of `requested` and that the caller attends. Events may be
-- long; see calendar_events.
-- needs: requested (ends_at, starts_at)
-- gives: meeting (calendar_event_id, ends_at, starts_at)
meeting as (
    select calendar_event_id,
           starts_at,
           ends_at
      from content.calendar_event
     where user_id = %(user_id)s
       and status = 'confirmed'
       and response = 'accepted'
       and start_date is null
       and starts_at > (select starts_at - interval '24 hours' from requested)
       and starts_at < (select ends_at from requested)
     union all
    select calendar_event_id,
           starts_at,
           ends_at
      from content.calendar_event
     where user_id = %(user_id)s
       and status = 'confirmed'
       and response = 'accepted'
       and start_date is null
       and ends_at - starts_at > interval '24 hours'
       and ends_at > (select starts_at from requested)
       and starts_at <= (select starts_at - interval '24 hours' from requested)
),

-- fragment: met
-- `met`: the time in at least one `meeting`, by the position of a slot. Needs `slots`.
-- needs: meeting (ends_at, starts_at)
-- needs: slots (ends, starts)
-- gives: met (position, times)
met as (
    select touched.position,
           range_agg(
               tstzrange(
                   greatest(meeting.starts_at, slots.starts[touched.position]),
                   least(meeting.ends_at, slots.ends[touched.position])
               )
           ) as times
      from meeting,
           slots,
           lateral generate_series(
               greatest(width_bucket(meeting.starts_at, slots.starts), 1),
               width_bucket(meeting.ends_at, slots.starts)
           ) as touched (position)
     where meeting.starts_at < slots.ends[touched.position]
       and meeting.ends_at > slots.starts[touched.position]
     group by touched.position
),

-- fragment: recovery_measures
-- `recovery_measure`: the `wanted` measures of sleep, recovery and strain in each slot.
-- needs: recovery_day (cycle, date, recovery, sleep)
-- needs: slot (date, position)
-- needs: wanted (metric)
-- gives: recovery_measure (metric, position, value)
recovery_measure as (
    select slot.position,
           metric_value.metric,
           metric_value.value
      from recovery_day as day
      join slot using (date),
           lateral (
               values ('recovery_score', (day.recovery).score),
                      ('strain_score', (day.cycle).strain),
                      ('asleep_ms', (day.sleep).asleep_ms),
                      ('deep_ms', (day.sleep).deep_ms),
                      ('rem_ms', (day.sleep).rem_ms),
                      ('hrv_rmssd_ms', (day.recovery).hrv_rmssd_ms),
                      ('resting_heart_rate_bpm', (day.recovery).resting_heart_rate_bpm)
           ) as metric_value (metric, value)
     where metric_value.metric in (select metric from wanted)
       and metric_value.value is not null
),

-- fragment: health_measures
-- `health_measure`: the other measures of health in each slot. Needs `requested_days`, `slots`, and `health_amounts`,
-- whose `metric` are those of the `wanted` metrics that add up.
-- needs: amount (metric_type, position, value)
-- needs: requested (ends_at, starts_at)
-- needs: slots (ends, starts)
-- needs: wanted (metric)
-- gives: health_measure (metric, position, value)
health_measure as (
    select position,
           'health:' || metric_type as metric,
           value
      from amount
     union all
    select touched.position,
           'health:' || averaged.metric_type,
           avg(averaged.value)
      from (
               select averaged.metric_type,
                      sample.started_at,
                      sample.ended_at,
                      sample.value
                 from (
                          select metric_type
                            from health.metric
                           where user_id = %(user_id)s
                             and aggregation = 'avg'
                             and 'health:' || metric_type in (select metric from wanted)
                          offset 0
                      ) as averaged,
                      health.sample as sample
                where sample.user_id = %(user_id)s
                  and sample.metric_type = averaged.metric_type
                  and sample.started_at > (select starts_at - interval '48 hours' from requested)
                  and sample.started_at < (select ends_at from requested)
                union all
               select 'heart_rate',
                      recorded_at,
                      recorded_at,
                      bpm
                 from health.heart_rate
                where user_id = %(user_id)s
                  and exists (select from wanted where metric = 'health:heart_rate')
                  and recorded_at >= (select starts_at from requested)
                  and recorded_at < (select ends_at from requested)
           ) as averaged,
           slots,
           lateral generate_series(
               greatest(width_bucket(averaged.started_at, slots.starts), 1),
               width_bucket(averaged.ended_at, slots.starts)
           ) as touched (position)
     where averaged.started_at < slots.ends[touched.position]
       and (
               averaged.ended_at > slots.starts[touched.position]
               or averaged.started_at >= slots.starts[touched.position]
           )
     group by touched.position,
              averaged.metric_type
),

-- fragment: added_up_metrics
-- `metric`: those of the `wanted` measures of health that add up. It is materialized, so that the planner does not read
-- the samples of all metrics before it knows the wanted ones.
-- needs: wanted (metric)
-- gives: metric (metric_type)
metric as materialized (
    select metric_type
      from health.metric
     where user_id = %(user_id)s
       and aggregation = 'sum'
       and 'health:' || metric_type in (select metric from wanted)
),

-- fragment: requested_slots
-- `slot`: the requested slots. `wanted`: the metrics. `period`: the periods.
-- gives: slot (date, ends_at, position, starts_at)
-- gives: wanted (metric)
-- gives: period (first_day, kind, last_day)
slot as (
    select n::integer as position,
           date,
           starts_at,
           ends_at
      from unnest(%(dates)s::date[], %(starts)s::timestamptz[], %(ends)s::timestamptz[])
               with ordinality as named (date, starts_at, ends_at, n)
),
wanted as (
    select metric
      from unnest(%(metrics)s::text[]) as named (metric)
),
period (kind, first_day, last_day) as (
    select *
      from unnest(%(kinds)s::text[], %(period_firsts)s::date[], %(period_lasts)s::date[])
),

-- fragment: app_measures
-- `measure`: the activity of each slot, with the columns that goals filter by. The values of a metric in a slot
-- add up to its value for that slot. Needs `spent`.
-- needs: score (category, score)
-- needs: spent (app, category, continued, owned_ms, position, started)
-- gives: measure (app, category, language, metric, position, project, value)
measure as (
    select spent.position,
           metric_value.metric,
           spent.app,
           spent.category,
           null as project,
           null as language,
           metric_value.value
      from (
               select position,
                      app,
                      category,
                      nullif(sum(owned_ms), 0)::bigint as spent_ms,
                      sum(started + continued)::bigint as session_count
                 from spent
                group by position,
                         app,
                         category
           ) as spent
      left join score as known using (category),
           lateral (
               values ('tracked_ms', spent.spent_ms),
                      (
                          case
                              when known.score >= 1 then 'productive_ms'
                              when known.score <= -1 then 'distracted_ms'
                              else 'neutral_ms'
                          end,
                          spent.spent_ms
                      ),
                      ('session_count', spent.session_count)
           ) as metric_value (metric, value)
),

-- fragment: coding_measures
-- `measure`: the same for coding. Needs `coding_spent`.
-- needs: coding_spent (language, owned_ms, position, project)
-- gives: measure (app, category, language, metric, position, project, value)
measure as (
    select position,
           'coding_ms' as metric,
           null as app,
           null as category,
           project,
           language,
           nullif(sum(owned_ms), 0)::bigint as value
      from coding_spent
     group by position,
              project,
              language
),

-- fragment: switch_measures
-- `measure`: the same for switches. Needs `switched`.
-- needs: switched (app_switches, position)
-- gives: measure (app, category, language, metric, position, project, value)
measure as (
    select position,
           'app_switches' as metric,
           null as app,
           null as category,
           null as project,
           null as language,
           app_switches as value
      from switched
),

-- fragment: focus_measures
-- `measure`: the same for focus. Needs `focused`.
-- needs: focused (focus_ms, position)
-- gives: measure (app, category, language, metric, position, project, value)
measure as (
    select summed.position,
           metric_value.metric,
           null as app,
           null as category,
           null as project,
           null as language,
           metric_value.value
      from (
               select position,
                      sum(focus_ms)::bigint as focus_ms,
                      max(focus_ms) as longest_focus_ms
                 from focused
                group by position
           ) as summed,
           lateral (
               values ('focus_ms', summed.focus_ms), ('longest_focus_ms', summed.longest_focus_ms)
           ) as metric_value (metric, value)
),

-- fragment: reached_goals
-- `reached`: the value of each goal in each slot. Needs `measure`.
-- needs: measure (app, category, language, metric, position, project, value)
-- needs: slot (position)
-- gives: reached (goal_id, position, target, value)
reached as (
    select goal.goal_id,
           goal.target,
           slot.position,
           coalesce(sum(measure.value), 0)::bigint as value
      from activity.goal as goal
     cross join slot
      left join measure
             on measure.position = slot.position
            and measure.metric = goal.metric
            and (goal.categories = '{}' or measure.category = any (goal.categories))
            and (goal.apps = '{}' or measure.app = any (goal.apps))
            and (goal.projects = '{}' or measure.project = any (goal.projects))
            and (goal.languages = '{}' or measure.language = any (goal.languages))
     where goal.user_id = %(user_id)s
       and goal.goal_id = any (%(goals)s::uuid[])
     group by goal.goal_id,
              goal.target,
              slot.position
),

-- fragment: sums_of_periods
-- `summed`: the sums of metrics that add up, for each period. Needs `measured`.
-- needs: measured (metric, position, value)
-- needs: period (first_day, kind, last_day)
-- needs: slot (date, position)
-- gives: summed (kind, metric, sum)
summed as (
    select period.kind,
           measured.metric,
           sum(measured.value) as sum
      from period,
           slot,
           measured
     where slot.date between period.first_day and period.last_day
       and measured.position = slot.position
     group by period.kind,
              measured.metric
),

-- fragment: measured_slots
-- `measured`: the value of each slot in each metric, where there is one. Values are rounded to remove floating point
-- noise; otherwise a constant metric would seem to vary. Needs `measure`.
-- needs: measure (metric, position, value)
-- gives: measured (metric, position, value)
measured as (
    select position,
           metric,
           -- Most values are whole. To round those changes nothing but -0, and takes most of the time.
           case
               when value = trunc(value) and abs(value) < 1e15 then value + 0
               else value::numeric::double precision
           end as value
      from (select position, metric, sum(value::double precision) as value from measure group by 1, 2) as total
),

-- fragment: rendered_days
-- The result of every statement: the values of slots in their order, and the values of periods.
-- needs: averaged (days, kind, metric)
-- needs: period (kind)
-- needs: summed (kind, metric)
-- needs: valued (date, metric, position, value)
-- gives: rendered_days (days, periods)
rendered_days as (
    select (
               select json_object_agg(metric, values)
                 from (
                          select metric,
                                 json_agg(value order by position) as values
                            from valued
                           where not exists (select from period)
                           group by metric
                      ) as by_metric
           ) as days,
           (
               select json_agg(row_to_json(period_values))
                 from (select * from averaged left join summed using (kind, metric)) as period_values
           ) as periods
)

-- fragment: rendered_goals
-- The values that goals reached, slot by slot: a column of statements about activity.
-- needs: reached (goal_id, position, target, value)
(
    select json_object_agg(goal_id, slots)
      from (
               select goal_id,
                      json_agg(
                          json_build_object(
                              'value', value,
                              'percent', svc.percent(value, target),
                              'remaining', greatest(target - value, 0)
                          )
                          order by position
                      ) as slots
                 from reached
                group by goal_id
           ) as by_goal
) as goals

-- fragment: values_of_days
-- `valued`: the value of each slot in each metric that is `wanted`; null where there is none. `averaged`: the number,
-- mean and deviation of the days' values in each period. Needs `measured`.
-- needs: measured (metric, position, value)
-- needs: period (first_day, kind, last_day)
-- needs: slot (date, position)
-- needs: wanted (metric)
-- gives: valued (date, metric, position, value)
-- gives: averaged (days, deviation, kind, mean, metric)
valued as (
    select slot.position,
           slot.date,
           wanted.metric,
           case
               when wanted.metric = any (%(counters)s::text[]) and reported.date is not null
                   then coalesce(measured.value, 0)
               else measured.value
           end as value
      from slot
     cross join wanted
      left join measured using (position, metric)
      left join unnest(%(reported)s::date[]) as reported (date) using (date)
),
averaged as (
    select period.kind,
           valued.metric,
           avg(valued.value) as mean,
           stddev_samp(valued.value::numeric) as deviation,
           count(valued.value) as days
      from period,
           valued
     where valued.date between period.first_day and period.last_day
     group by period.kind,
              valued.metric
),
