-- name: hourly
-- The hours of one local day, in order. `time_of_hours` and the statement of coding metrics then read the time spent in
-- them.
--include answer
with row as (
    select hour,
           utc_offset,
           svc.instant(starts_at) as starts_at,
           svc.instant(ends_at) as ends_at
      from svc.hours(%(date)s::date, %(date)s::date, %(tz)s)
),
requested as (
    select coalesce(min(starts_at), svc.instant(svc.day_start(%(date)s::date, %(tz)s))) as starts_at,
           coalesce(max(ends_at), svc.instant(svc.day_start(%(date)s::date, %(tz)s))) as ends_at
      from row
)
select %(date)s::date as date,
       %(given_tz)s::text as tz,
       json_build_object('from', starts_at, 'to', ends_at) as range,
       (select coalesce(json_agg(row order by starts_at), '[]') from row) as data
  from requested
--include end_of_answer

-- name: time_of_hours
-- The time spent in each of the given hours, in their order.
--include answer
with
--include given_slots
--include spans
--include categories
--include rule_inputs_in_spans
--include decided_category
--include app_time
--include per_category
measured as (
    select position,
           sum(total_ms)::bigint as total_ms,
           coalesce(sum(total_ms) filter (where score >= 1), 0)::bigint as productive_ms,
           coalesce(sum(total_ms) filter (where score = 0), 0)::bigint as neutral_ms,
           coalesce(sum(total_ms) filter (where score <= -1), 0)::bigint as distracted_ms,
           json_agg(
               json_build_object(
                   'category', category,
                   'productivity', svc.productivity(score),
                   'total_ms', total_ms
               )
               order by total_ms desc,
                        category collate "C"
           ) as categories
      from per_category
     group by position
),
row as (
    select coalesce(total_ms, 0) as total_ms,
           coalesce(productive_ms, 0) as productive_ms,
           coalesce(neutral_ms, 0) as neutral_ms,
           coalesce(distracted_ms, 0) as distracted_ms,
           0 as coding_ms,
           coalesce(categories, '[]') as categories
      from slot
      left join measured using (position)
     order by position
)
select json_agg(row) as hours,
       json_build_object('tracked_ms', sum(total_ms)::bigint) as totals
  from row
--include end_of_answer

-- name: hours
-- The hours of some local days, in order, and which of these days were reported. The statements of metrics then read the
-- time spent in the hours.
--include answer
with slot as (
    select n as position,
           date,
           starts_at,
           ends_at
      from svc.days(%(from)s::date, %(to)s::date, %(tz)s)
),
--include reported_days
row as (
    select date,
           hour,
           utc_offset,
           svc.instant(starts_at) as starts_at,
           svc.instant(ends_at) as ends_at
      from svc.hours(%(from)s::date, %(to)s::date, %(tz)s)
)
select json_build_object('from', %(from)s::date, 'to', %(to)s::date) as range,
       %(given_tz)s::text as tz,
       (select coalesce(json_agg(row order by starts_at), '[]') from row) as data,
       (
           select json_agg(
                      json_build_object('date', slot.date, 'reported', reported.date is not null)
                      order by slot.position
                  )
             from slot
             left join reported using (date)
       ) as days
--include end_of_answer

-- name: hourly_patterns
-- Whole weeks that end yesterday, the edges of their hours as seconds since 1970, and the first tracked day. Some people
-- track only an editor, so a day with coding time is a tracked day too. `time_of_weeks` then reads the averages.
--include answer
with requested as (
    select today - 7 * %(weeks)s::integer as first_day,
           today - 1 as last_day
      from (select (now() at time zone %(tz)s)::date as today) as clock
),
first_tracked as (
    select min((first.started_at at time zone %(tz)s)::date) as date
      from (
               (
                   select session.started_at
                     from activity.app_session as session
                    where session.user_id = %(user_id)s
                      and session.ended_at > session.started_at
                      and not session.idle
                    order by session.started_at
                    limit 1
               )
                union all
               (
                   select session.started_at
                     from activity.coding_session as session
                    where session.user_id = %(user_id)s
                      and session.ended_at > session.started_at
                    order by session.started_at
                    limit 1
               )
                union all
               (
                   select lower(removed.active)
                     from activity.removed_day as removed
                    where removed.user_id = %(user_id)s
                      and not isempty(removed.active)
                    order by removed.date
                    limit 1
               )
           ) as first
),
hours as (
    select array_agg(extract(epoch from hour.starts_at)::bigint order by hour.n) as starts,
           extract(epoch from max(hour.ends_at))::bigint as ends
      from requested,
           lateral svc.hours(requested.first_day, requested.last_day, %(tz)s) as hour
)
select %(weeks)s::integer as weeks,
       %(given_tz)s::text as tz,
       json_build_object('from', first_day, 'to', last_day) as range,
       (select date from first_tracked) as first_tracked,
       (hours.starts || hours.ends)::text as edges
  from requested
 cross join hours
--include end_of_answer

-- name: time_of_weeks
-- The average activity of each hour of each weekday over these weeks, from one edge of an hour to the next.
--
-- An average is over the times that an hour occurred since the first tracked day, empty ones too: a weekday
-- that is seldom worked on must not look full. An hour that a change of clocks left out did not occur, and
-- one that it doubled occurred once.
--include answer
with slot as (
    select position,
           starts_at,
           ends_at
      from (
               select n::integer as position,
                      to_timestamp(at) as starts_at,
                      lead(to_timestamp(at)) over (order by n) as ends_at
                 from unnest(%(edges)s::bigint[]) with ordinality as edge (at, n)
           ) as hour
     where ends_at is not null
),
--include spans
--include runs
--include categories
--include rule_inputs_in_runs
--include decided_category
--include raw_time
--include coding_time
-- Two arrays: the ids of labels, and at the same places their scores.
label_score as (
    select array_agg(label_id order by label_id) as ids,
           array_agg(coalesce(known.score, 0) order by label_id) as scores
      from decided_category
      left join score as known on known.category = decided_category.known_as
     where label_id is not null
),
measured as (
    select position,
           sum(owned_ms) as tracked_ms,
           sum(owned_ms) filter (where score >= 1) as productive_ms,
           sum(owned_ms) filter (where score <= -1) as distracted_ms
      from (
               select width_bucket(part.starts_at, slots.starts) as position,
                      label_score.scores[width_bucket(part.label_id, label_score.ids)] as score,
                      part.owned_ms
                 from slots,
                      label_score,
                      run,
                      lateral (
                          select starts_at,
                                 label_id,
                                 owned_ms
                            from activity.app_time
                           where user_id = %(user_id)s
                             and grain = run.grain
                             and starts_at >= run.starts_at
                             and starts_at < run.ends_at
                          offset 0
                      ) as part
                union all
               select raw_spent.position,
                      known.score,
                      raw_spent.owned_ms
                 from raw_spent
                 left join score as known using (category)
           ) as spent
     group by position
),
coded as (
    select position,
           sum(owned_ms) as coding_ms
      from coding_spent
     group by position
),
occurrence as (
    select slot.local_at::date as date,
           extract(isodow from slot.local_at)::integer as day_of_week,
           extract(hour from slot.local_at)::integer as hour,
           measured.tracked_ms,
           measured.productive_ms,
           measured.distracted_ms,
           coded.coding_ms
      from (select position, starts_at at time zone %(tz)s as local_at from slot) as slot
      left join measured using (position)
      left join coded using (position)
),
per_hour as (
    select day_of_week,
           hour,
           sum(tracked_ms) as tracked_ms,
           sum(productive_ms) as productive_ms,
           sum(distracted_ms) as distracted_ms,
           sum(coding_ms) as coding_ms,
           count(distinct date) as sample_count
      from occurrence
     where date >= %(first_tracked)s::date
     group by day_of_week,
              hour
),
per_day as (
    select day_of_week,
           sum(tracked_ms) as tracked_ms,
           count(distinct date) as sample_count
      from occurrence
     where date >= %(first_tracked)s::date
     group by day_of_week
),
row as (
    select day_of_week,
           hour,
           round(coalesce(tracked_ms, 0) / coalesce(sample_count, 1))::bigint as average_ms,
           round(coalesce(productive_ms, 0) / coalesce(sample_count, 1))::bigint
               as productive_average_ms,
           round(coalesce(distracted_ms, 0) / coalesce(sample_count, 1))::bigint
               as distracted_average_ms,
           round(coalesce(coding_ms, 0) / coalesce(sample_count, 1))::bigint
               as coding_average_ms,
           coalesce(sample_count, 0) as sample_count
      from generate_series(1, 7) as day_of_week
     cross join generate_series(0, 23) as hour
      left join per_hour using (day_of_week, hour)
),
day_row as (
    select day_of_week,
           round(coalesce(tracked_ms, 0) / coalesce(sample_count, 1))::bigint as average_ms,
           coalesce(sample_count, 0) as sample_count
      from generate_series(1, 7) as day_of_week
      left join per_day using (day_of_week)
)
select (
           select count(distinct (date - %(first_day)s::date) / 7)
             from occurrence
            where tracked_ms > 0
               or coding_ms > 0
       ) as weeks_with_data,
       (select json_agg(row order by day_of_week, hour) from row) as data,
       (select json_agg(day_row order by day_of_week) from day_row) as by_day
--include end_of_answer
