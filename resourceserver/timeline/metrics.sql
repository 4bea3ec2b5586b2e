-- What each day came to in every metric that days are compared by: one definition for correlation, goals and
-- summaries, which is also that of the endpoints about a single domain.
--
-- A statement defines `slot` (position, date, starts_at, ends_at), its days as svc.days has them, and
-- `wanted` (metric). A metric that nobody wants costs nothing: each part has a condition which can be decided
-- before anything is read for it.

-- fragment: asked_days
-- `asked`: from the first day's start to the last one's end; nothing, where there is no day.
asked as (
    select coalesce(min(starts_at), '-infinity') as starts_at,
           coalesce(max(ends_at), '-infinity') as ends_at
      from slot
),

-- fragment: activity_by_day
-- `measure`: each day's activity, by what it can be filtered by; a metric's values for a day add up to its
-- value of that day. Needs `spent` and `coding_spent`, `switched` and `focused`.
measure as (
    select spent.position,
           told.metric,
           spent.app,
           spent.category,
           null as project,
           null as language,
           told.value
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
      left join score as known using (category)
     cross join lateral (
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
           ) as told (metric, value)
     where exists (
               select
                 from wanted
                where metric in (
                          'tracked_ms',
                          'productive_ms',
                          'neutral_ms',
                          'distracted_ms',
                          'session_count'
                      )
           )
     union all
    select position,
           'coding_ms',
           null,
           null,
           project,
           language,
           nullif(sum(owned_ms), 0)::bigint
      from coding_spent
     where exists (select from wanted where metric = 'coding_ms')
     group by position,
              project,
              language
     union all
    select position,
           'app_switches',
           null,
           null,
           null,
           null,
           app_switches
      from switched
     where exists (select from wanted where metric = 'app_switches')
     union all
    select summed.position,
           told.metric,
           null,
           null,
           null,
           null,
           told.value
      from (
               select position,
                      sum(focus_ms)::bigint as focus_ms,
                      max(focus_ms) as longest_focus_ms
                 from focused
                group by position
           ) as summed
     cross join lateral (
               values ('focus_ms', summed.focus_ms), ('longest_focus_ms', summed.longest_focus_ms)
           ) as told (metric, value)
     where exists (select from wanted where metric in ('focus_ms', 'longest_focus_ms'))
),

-- fragment: stays
-- `stay`: the check-ins and visits of about the range of `asked`, but for those that were declined. Visits may be
-- long; see location_events.
stay as (
    select event_id,
           place_id,
           started_at,
           case type when 'visit' then coalesce(ended_at, started_at) else started_at end as ended_at
      from location.event
     where user_id = %(user_id)s
       and status <> 'declined'
       and started_at > (select starts_at - interval '24 hours' from asked)
       and started_at < (select ends_at from asked)
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
       and ended_at > (select starts_at from asked)
       and started_at <= (select starts_at - interval '24 hours' from asked)
),

-- fragment: steps
-- `step`: how far it is to each point that is exact enough from the one before, if it is of the same slot. Needs
-- `asked` and `slots`.
step as (
    select position,
           case
               when latitude_before is not null
                   then svc.distance_m(latitude, longitude, latitude_before, longitude_before)
           end as distance_m
      from (
               select position,
                      latitude,
                      longitude,
                      lag(latitude) over walk as latitude_before,
                      lag(longitude) over walk as longitude_before
                 from (
                          select width_bucket(recorded_at, slots.starts) as position,
                                 recorded_at,
                                 point_id,
                                 svc.degrees(latitude) as latitude,
                                 svc.degrees(longitude) as longitude
                            from location.point
                           cross join slots
                           where user_id = %(user_id)s
                             and recorded_at >= (select starts_at from asked)
                             and recorded_at < (select ends_at from asked)
                             and accuracy_m <= 100
                      ) as located
               window walk as (partition by position order by recorded_at, point_id)
           ) as followed
),

-- fragment: meetings
-- `meeting`: the meetings of about the range of `asked` that the caller goes to. Events may be long; see
-- calendar_events.
meeting as (
    select calendar_event_id,
           starts_at,
           ends_at
      from content.calendar_event
     where user_id = %(user_id)s
       and status = 'confirmed'
       and response = 'accepted'
       and start_date is null
       and starts_at > (select starts_at - interval '24 hours' from asked)
       and starts_at < (select ends_at from asked)
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
       and ends_at > (select starts_at from asked)
       and starts_at <= (select starts_at - interval '24 hours' from asked)
),

-- fragment: met
-- `met`: when somebody was in any `meeting`, by the position of a slot. Needs `slots`.
met as (
    select touched.position,
           range_agg(
               tstzrange(
                   greatest(meeting.starts_at, slots.starts[touched.position]),
                   least(meeting.ends_at, slots.ends[touched.position])
               )
           ) as times
      from meeting
     cross join slots
     cross join lateral generate_series(
               greatest(width_bucket(meeting.starts_at, slots.starts), 1),
               width_bucket(meeting.ends_at, slots.starts)
           ) as touched (position)
     where meeting.starts_at < slots.ends[touched.position]
       and meeting.ends_at > slots.starts[touched.position]
     group by touched.position
),

-- fragment: health_measures
-- `health_measure`: what is measured of a body. Needs `asked_days`, `slots`, `recovery_days`, and
-- `health_amounts`, for which `metric` is what is wanted of it and adds up.
health_measure as (
    select slot.position,
           told.metric,
           told.value
      from recovery_day as day
      join slot using (date)
     cross join lateral (
               values ('recovery_score', (day.recovery).score),
                      ('strain_score', (day.cycle).strain),
                      ('asleep_ms', (day.sleep).asleep_ms),
                      ('deep_ms', (day.sleep).deep_ms),
                      ('rem_ms', (day.sleep).rem_ms),
                      ('hrv_rmssd_ms', (day.recovery).hrv_rmssd_ms),
                      ('resting_heart_rate_bpm', (day.recovery).resting_heart_rate_bpm)
           ) as told (metric, value)
     where exists (
               select
                 from wanted
                where metric in (
                          'recovery_score',
                          'strain_score',
                          'asleep_ms',
                          'deep_ms',
                          'rem_ms',
                          'hrv_rmssd_ms',
                          'resting_heart_rate_bpm'
                      )
           )
       and told.value is not null
     union all
    select position,
           'health:' || metric_type,
           value
      from amount
     union all
    select touched.position,
           'health:' || averaged.metric_type,
           avg(averaged.value)
      from (
               select sample.metric_type,
                      sample.started_at,
                      sample.ended_at,
                      sample.value
                 from health.metric as averaged
                 join health.sample as sample
                   on sample.user_id = %(user_id)s
                  and sample.metric_type = averaged.metric_type
                where averaged.user_id = %(user_id)s
                  and averaged.aggregation = 'avg'
                  and 'health:' || averaged.metric_type in (select metric from wanted)
                  and sample.started_at > (select starts_at - interval '48 hours' from asked)
                  and sample.started_at < (select ends_at from asked)
                union all
               select 'heart_rate',
                      recorded_at,
                      recorded_at,
                      bpm
                 from health.heart_rate
                where user_id = %(user_id)s
                  and exists (select from wanted where metric = 'health:heart_rate')
                  and recorded_at >= (select starts_at from asked)
                  and recorded_at < (select ends_at from asked)
           ) as averaged
     cross join slots
     cross join lateral generate_series(
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

-- fragment: other_measures
-- `other_measure`: the same of all domains but activity, which nothing filters. Needs `asked_days`, `spans`,
-- `recovery_days`, and `health_amounts`, for which `metric` is what is wanted of it and adds up.
code_event as (
    select width_bucket(occurred_at, slots.starts) as position,
           type,
           additions
      from code.event
     cross join slots
     where user_id = %(user_id)s
       and occurred_at >= (select starts_at from asked)
       and occurred_at < (select ends_at from asked)
),
--include stays
--include steps
--include meetings
--include met
--include health_measures
other_measure as (
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
     union all
    select position,
           metric,
           value
      from health_measure
     union all
    select heard.position,
           told.metric,
           told.value
      from (
               select width_bucket(listened_at, slots.starts) as position,
                      sum(coalesce(played_ms, duration_ms, 0)) as listened_ms,
                      count(*) as play_count
                 from music.listen
                cross join slots
                where user_id = %(user_id)s
                  and listened_at >= (select starts_at from asked)
                  and listened_at < (select ends_at from asked)
                group by 1
           ) as heard
     cross join lateral (
               values ('listened_ms', heard.listened_ms), ('play_count', heard.play_count)
           ) as told (metric, value)
     where exists (select from wanted where metric in ('listened_ms', 'play_count'))
     union all
    select touched.position,
           'place_count',
           count(distinct stay.place_id)
      from stay
     cross join slots
     cross join lateral generate_series(
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
           coalesce(sum(distance_m), 0)
      from step
     where exists (select from wanted where metric = 'distance_m')
     group by position
     union all
    select met.position,
           'meeting_ms',
           sum(svc.duration_ms(upper(time) - lower(time)))
      from met
     cross join lateral unnest(met.times) as time
     where exists (select from wanted where metric = 'meeting_ms')
     group by met.position
     union all
    select width_bucket(watched_at, slots.starts),
           'watch_ms',
           sum(watch_ms)
      from content.play
     cross join slots
     where user_id = %(user_id)s
       and exists (select from wanted where metric = 'watch_ms')
       and watched_at >= (select starts_at from asked)
       and watched_at < (select ends_at from asked)
     group by 1
),

-- fragment: added_up_metrics
-- `metric`: which of the measures of a body that are `wanted` add up.
metric as (
    select metric_type
      from health.metric
     where user_id = %(user_id)s
       and aggregation = 'sum'
       and 'health:' || metric_type in (select metric from wanted)
),

-- fragment: metrics_of_days
-- `valued`: see the fragment of that name, and all that it is made of. Needs `slot`, with dates, `wanted` and
-- `metric`.
asked_date as (
    select min(date) as first,
           max(date) as last
      from slot
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
--include health_amounts
--include recovery_days
--include other_measures
--include valued_days

-- fragment: valued_days
-- `valued`: the value of each `slot` in each metric that is `wanted`; null where there is none. Events that are
-- counted are none on a day on which a tracker reported anything, and unknown on other days; what is measured
-- is unknown unless it was measured. Floating point noise is cut off, so that what is always the same is seen
-- to be. Needs `measure`, `other_measure`, and in %(counters)s the names of what is counted.
measured as (
    select position,
           metric,
           sum(value)::numeric::double precision as value
      from (
               select position,
                      metric,
                      value::double precision as value
                 from measure
                union all
               select position,
                      metric,
                      value
                 from other_measure
           ) as part
     group by position,
              metric
),
reported as (
    select position
      -- The planner looks nothing up by what is subtracted from a column beside row-level security; `offset`
      -- makes a column of it.
      from (
               select position,
                      starts_at,
                      ends_at,
                      starts_at - interval '24 hours' as day_before
                 from slot
               offset 0
           ) as slot
     where cardinality(%(counters)s::text[]) > 0
       and starts_at < ends_at
       and (
               exists (
                   select
                     from activity.app_session
                    where user_id = %(user_id)s
                      and started_at >= slot.starts_at
                      and started_at < slot.ends_at
               )
               or exists (
                   select
                     from activity.coding_session
                    where user_id = %(user_id)s
                      and started_at >= slot.starts_at
                      and started_at < slot.ends_at
               )
               or exists (
                   select
                     from activity.app_session
                    where user_id = %(user_id)s
                      and started_at > slot.day_before
                      and started_at < slot.starts_at
                      and ended_at > slot.starts_at
               )
               or exists (
                   select
                     from activity.coding_session
                    where user_id = %(user_id)s
                      and started_at > slot.day_before
                      and started_at < slot.starts_at
                      and ended_at > slot.starts_at
               )
           )
),
valued as (
    select slot.position,
           slot.date,
           wanted.metric,
           case
               when wanted.metric = any (%(counters)s::text[]) and reported.position is not null
                   then coalesce(measured.value, 0)
               else measured.value
           end as value
      from slot
     cross join wanted
      left join measured using (position, metric)
      left join reported using (position)
),

-- fragment: ranked_by_day
-- `ranked`: on what each day's time was spent, by kind and most of it first: applications and categories what
-- is tracked, projects what is coded. Needs `measure` with these metrics.
ranked as (
    select position,
           kind,
           name,
           total_ms,
           row_number() over (
               partition by position, kind
               order by total_ms desc, name collate "C"
           ) as rank
      from (
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
                union all
               select position,
                      'project',
                      project,
                      sum(value)
                 from measure
                where metric = 'coding_ms'
                group by position,
                         project
           ) as spent_on
     where total_ms > 0
),

-- fragment: measures_of_periods
-- `measure_of_period`: the same as `measure`, of each `period` (kind, first_day, last_day). Needs `slot` with dates,
-- `spent`, `streak` and `measure`.
period_day as (
    select period.kind,
           period.first_day,
           slot.position,
           slot.position = min(slot.position) filter (where slot.starts_at < slot.ends_at)
               over (partition by period.kind, period.first_day) as is_first
      from period
      join slot
        on slot.date between period.first_day and period.last_day
),
-- A session that lasts over midnight is one session of the week.
sessions_of_period as (
    select period_day.kind,
           period_day.first_day,
           spent.app,
           spent.category,
           sum(
               spent.started + case when period_day.is_first then spent.continued else 0 end
           ) as session_count
      from spent
      join period_day using (position)
     where exists (select from wanted where metric = 'session_count')
     group by period_day.kind,
              period_day.first_day,
              spent.app,
              spent.category
),
-- A streak that lasts over midnight is one streak of the week.
streak_of_period as (
    select period.kind,
           period.first_day,
           max(
               least(streak.ended_ms, edge.ends_ms) - greatest(streak.started_ms, edge.starts_ms)
           ) as longest_ms
      from period
     cross join lateral (
               select (extract(epoch from min(slot.starts_at)) * 1000)::bigint as starts_ms,
                      (extract(epoch from max(slot.ends_at)) * 1000)::bigint as ends_ms
                 from slot
                where slot.date between period.first_day and period.last_day
           ) as edge
      join streak
        on streak.started_ms < edge.ends_ms
       and streak.ended_ms > edge.starts_ms
     where exists (select from wanted where metric = 'longest_focus_ms')
     group by period.kind,
              period.first_day
),
measure_of_period as (
    select period_day.kind,
           period_day.first_day,
           measure.metric,
           measure.app,
           measure.category,
           measure.project,
           measure.language,
           measure.value
      from measure
      join period_day using (position)
     where measure.metric not in ('session_count', 'longest_focus_ms')
     union all
    select kind,
           first_day,
           'session_count',
           app,
           category,
           null,
           null,
           session_count
      from sessions_of_period
     union all
    select kind,
           first_day,
           'longest_focus_ms',
           null,
           null,
           null,
           null,
           longest_ms
      from streak_of_period
),

-- fragment: asked_slots
-- `slot`: the slots that are asked for. `wanted`: the metrics. `period`: the periods.
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
period as (
    select kind,
           first_day,
           last_day
      from unnest(%(kinds)s::text[], %(period_firsts)s::date[], %(period_lasts)s::date[])
               as named (kind, first_day, last_day)
),

-- fragment: app_measures
-- `measure`: the activity of each slot, by what it can be filtered by; a metric's values for a slot add up to its
-- value of that slot. Needs `spent`.
measure as (
    select spent.position,
           told.metric,
           spent.app,
           spent.category,
           null as project,
           null as language,
           told.value
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
      left join score as known using (category)
     cross join lateral (
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
           ) as told (metric, value)
),

-- fragment: coding_measures
-- `measure`: the same of coding. Needs `coding_spent`.
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
-- `measure`: the same of switches. Needs `switched`.
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
-- `measure`: the same of focus. Needs `focused`.
measure as (
    select summed.position,
           told.metric,
           null as app,
           null as category,
           null as project,
           null as language,
           told.value
      from (
               select position,
                      sum(focus_ms)::bigint as focus_ms,
                      max(focus_ms) as longest_focus_ms
                 from focused
                group by position
           ) as summed
     cross join lateral (
               values ('focus_ms', summed.focus_ms), ('longest_focus_ms', summed.longest_focus_ms)
           ) as told (metric, value)
),

-- fragment: reached_goals
-- `reached`: what each goal came to in each slot. Needs `measure`.
goal as (
    select *
      from activity.goal
     where user_id = %(user_id)s
       and goal_id = any (%(goals)s::uuid[])
),
reached as (
    select goal.goal_id,
           slot.position,
           coalesce(sum(measure.value), 0)::bigint as value
      from goal
     cross join slot
      left join measure
             on measure.position = slot.position
            and measure.metric = goal.metric
            and (goal.categories = '{}' or measure.category = any (goal.categories))
            and (goal.apps = '{}' or measure.app = any (goal.apps))
            and (goal.projects = '{}' or measure.project = any (goal.projects))
            and (goal.languages = '{}' or measure.language = any (goal.languages))
     group by goal.goal_id,
              slot.position
),

-- fragment: sums_of_periods
-- `summed`: what adds up in each period. Needs `measured`.
summed as (
    select period.kind,
           measured.metric,
           sum(measured.value) as sum
      from period
      join slot on slot.date between period.first_day and period.last_day
      join measured using (position)
     group by period.kind,
              measured.metric
),

-- fragment: measured_slots
-- `measured`: the value of each slot in each metric, where there is one. Floating point noise is cut off, so that
-- what is always the same is seen to be. Needs `measure`.
measured as (
    select position,
           metric,
           sum(value::double precision)::numeric::double precision as value
      from measure
     group by position,
              metric
),

-- fragment: told_days
-- What every statement tells: the values of slots in their order, and what periods came to.
told_days as (
    select (
               select json_object_agg(metric, values)
                 from (
                          select metric,
                                 json_agg(value order by date) as values
                            from valued
                           where not exists (select from period)
                           group by metric
                      ) as told
           ) as days,
           (
               select json_agg(row_to_json(told))
                 from (select * from averaged left join summed using (kind, metric)) as told
           ) as periods
)

-- fragment: told_goals
-- What goals reached, slot by slot: a column of statements about activity.
(
    select json_object_agg(goal_id, slots)
      from (
               select reached.goal_id,
                      json_agg(
                          json_build_object(
                              'value', reached.value,
                              'percent', svc.percent(reached.value, goal.target),
                              'remaining', greatest(goal.target - reached.value, 0),
                              'is_reached', reached.value >= goal.target,
                              'is_exceeded', reached.value > goal.target
                          )
                          order by reached.position
                      ) as slots
                 from reached
                 join goal using (goal_id)
                group by reached.goal_id
           ) as told
) as goals

-- fragment: values_of_days
-- `valued`: the value of each slot in each metric that is `wanted`; null where there is none. `averaged`: how it was
-- on the days of each period. Needs `measured`.
reported as (
    select date
      from unnest(%(reported)s::date[]) as date
),
valued as (
    select slot.date,
           wanted.metric,
           case
               when wanted.metric = any (%(counters)s::text[]) and reported.date is not null
                   then coalesce(measured.value, 0)
               else measured.value
           end as value
      from slot
     cross join wanted
      left join measured using (position, metric)
      left join reported using (date)
),
averaged as (
    select period.kind,
           valued.metric,
           avg(valued.value) as mean,
           stddev_samp(valued.value::numeric) as deviation,
           count(valued.value) as days
      from period
      join valued on valued.date between period.first_day and period.last_day
     group by period.kind,
              valued.metric
),
