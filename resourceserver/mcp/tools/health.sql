-- fragment: requested_metrics
-- `requested_metric`: the requested metrics, with the unit and aggregation of each.
-- gives: requested_metric (aggregation, is_known, metric, position, unit)
requested_metric as (
    select name.metric,
           name.position,
           case when name.metric = 'health:heart_rate' then 'bpm' else known.unit end as unit,
           case when name.metric = 'health:heart_rate' then 'avg' else known.aggregation end as aggregation,
           name.metric = 'health:heart_rate'
               or known.metric_type is not null
               or not starts_with(name.metric, 'health:') as is_known
      from unnest(%(metrics)s::text[]) with ordinality as name (metric, position)
      left join health.metric as known
        on known.user_id = %(user_id)s
       and 'health:' || known.metric_type = name.metric
),

-- fragment: series
-- `series`: the values of each metric in `point` (metric, at, value), the last 200 of them.
-- needs: point (at, metric, value)
-- gives: series (is_cut, metric, points)
series as (
    select metric,
           json_agg(json_build_object('at', at, 'value', svc.rounded(value)) order by at)
               filter (where back <= 200) as points,
           count(*) > 200 as is_cut
      from (
               select point.*,
                      row_number() over (partition by metric order by at desc) as back
                 from point
           ) as counted
     group by metric
),

-- fragment: measured_in_slots
-- `measured`: the value of each requested metric in each `slot` (position, date, starts_at, ends_at). The days before
-- the range have slots of their own, so that the values of a range equal those of the endpoints: the part of a
-- day's total that counts depends on where the range cuts the day.
-- needs: slot (date, ends_at, position, starts_at)
-- gives: measured (metric, position, value)
wanted as (
    select distinct metric
      from unnest(%(metrics)s::text[]) as named (metric)
),
--include added_up_metrics
requested_date as (
    select min(date) as first,
           max(date) as last
      from slot
),
--include requested_days
--include slots
--include health_amounts
--include recovery_days
--include recovery_measures
--include health_measures
measured as (
    select position,
           metric,
           sum(value)::numeric::double precision as value
      from (select * from recovery_measure union all select * from health_measure) as measure
     where metric in (select metric from wanted)
     group by position,
              metric
)

-- name: get_health
-- The values of the requested metrics in a range, by day or coarser.
--include answer
with
--include frame
--include requested_metrics
by_day as (
    with slot as (
        select row_number() over (order by day.date)::integer as position,
               day.date,
               greatest(day.starts_at, frame.starts_at) as starts_at,
               least(day.ends_at, frame.ends_at) as ends_at
          from frame,
               lateral svc.days(frame.first_day, frame.last_day, frame.tz) as day
         where greatest(day.starts_at, frame.starts_at) < least(day.ends_at, frame.ends_at)
           and cardinality(%(metrics)s::text[]) > 0
    ),
--include measured_in_slots
    select measured.metric,
           slot.date,
           measured.value
      from measured
      join slot using (position)
),
-- In a range of several days, today is compared only if no other day has a value: its sums may still grow, and a
-- usual value early in a day may be unusual for a whole day.
summary as (
    select by_day.metric,
           sum(by_day.value) as total,
           avg(by_day.value) as mean,
           coalesce(
               avg(by_day.value) filter (
                   where by_day.date < frame.today
                      or requested_metric.aggregation is null
                      or frame.first_day = frame.today
               ),
               avg(by_day.value) filter (where requested_metric.aggregation <> 'sum')
           ) as compared_mean,
           min(by_day.value) as minimum,
           max(by_day.value) as maximum,
           count(*) as days_with_data,
           (array_agg(by_day.value order by by_day.date desc))[1] as latest,
           max(by_day.date) as latest_day
      from by_day
      join requested_metric using (metric),
           frame
     group by by_day.metric
),
point as (
    select by_day.metric,
           greatest(
               case %(frame_resolution)s::text
                   when 'day' then by_day.date
                   when 'week'
                       then by_day.date
                            - mod(extract(isodow from by_day.date)::integer - frame.week_starts_on + 7, 7)
                   else date_trunc('month', by_day.date::timestamp)::date
               end,
               frame.first_day
           )::text as at,
           avg(by_day.value) as value
      from by_day,
           frame
     where %(frame_resolution)s::text in ('day', 'week', 'month')
     group by 1,
              2
),
--include series
row as (
    select requested_metric.metric,
           requested_metric.position,
           requested_metric.unit,
           requested_metric.aggregation,
           coalesce(series.points, '[]') as series,
           coalesce(series.is_cut, false) as is_cut,
           json_build_object(
               'total', case when requested_metric.aggregation = 'sum' then svc.rounded(summary.total) end,
               'mean', svc.rounded(summary.mean),
               'minimum', svc.rounded(summary.minimum),
               'maximum', svc.rounded(summary.maximum),
               'days_with_data', coalesce(summary.days_with_data, 0),
               'latest', svc.rounded(summary.latest),
               'latest_day', summary.latest_day
           ) as summary,
           summary.compared_mean
      from requested_metric
      left join summary using (metric)
      left join series using (metric)
)
select %(frame_resolution)s::text as resolution,
       %(skipped)s::integer as skipped,
       (
           select coalesce(
                      json_agg(
                          json_build_object(
                              'metric', metric,
                              'unit', unit,
                              'aggregation', aggregation,
                              'summary', summary,
                              'compared_mean', compared_mean,
                              'series', series
                          )
                          order by position
                      ),
                      '[]'
                  )
             from row
       ) as metrics,
       %(frame_resolution)s::text <> %(resolution)s::text
           or coalesce((select bool_or(is_cut) from row), false) as truncated
  from frame
--include end_of_answer

-- name: health_before
-- The values of the requested metrics in the 28 days before a range, from which normal values are computed. If the
-- range is today, only the same hours of these days count, except for metrics of nights.
--include answer
with
--include frame
--include requested_metrics
today as (
    select tz
      from frame
),
slot as (
    select day.date,
           day.starts_at,
           day.ends_at,
           case
               when frame.first_day = frame.today
                   then
--include same_hours
               else day.ends_at
           end as counted_until
      from frame,
           today,
           lateral svc.days(frame.first_day - 28, frame.first_day - 1, frame.tz) as day
),
before as (
    with
--include counted_slots
--include measured_in_slots
    select metric,
           avg(value) as mean,
           stddev_samp(value) as deviation,
           count(*) as days
      from measured
      join slot using (position)
     where slot.date is not null
     group by metric
)
select coalesce(
           json_object_agg(
               before.metric,
               json_build_object(
                   'mean', before.mean,
                   'deviation', before.deviation,
                   'days', before.days,
                   'until', case
                       when frame.first_day = frame.today and requested_metric.aggregation is not null
                           then to_char(now() at time zone frame.tz, 'HH24:MI')
                   end
               )
           ),
           '{}'
       ) as of_metrics
  from before
  join requested_metric using (metric)
 cross join frame
--include end_of_answer

-- name: health_readings
-- The mean, the smallest and the largest of all readings of the requested metrics that do not add up, as in the
-- endpoint's summary.
--include answer
with
--include frame
--include requested_metrics
reading as (
    select requested_metric.metric,
           taken.value
      from requested_metric,
           frame,
           lateral (
               select value
                 from health.sample
                where user_id = %(user_id)s
                  and metric_type = substr(requested_metric.metric, length('health:') + 1)
                  -- No sample is longer than two days, so the index on its start bounds the search.
                  and started_at > frame.starts_at - interval '48 hours'
                  and started_at < frame.ends_at
                  and (ended_at > frame.starts_at or started_at >= frame.starts_at)
                union all
               select bpm
                 from health.heart_rate
                where user_id = %(user_id)s
                  and requested_metric.metric = 'health:heart_rate'
                  and recorded_at >= frame.starts_at
                  and recorded_at < frame.ends_at
           ) as taken
     where requested_metric.aggregation = 'avg'
       and frame.starts_at < frame.ends_at
),
summary as (
    select metric,
           sum(value) / count(*)::double precision as mean,
           min(value) as minimum,
           max(value) as maximum
      from reading
     group by metric
)
select coalesce(
           json_object_agg(
               metric,
               json_build_object(
                   'mean', svc.rounded(mean),
                   'minimum', svc.rounded(minimum),
                   'maximum', svc.rounded(maximum)
               )
           ),
           '{}'
       ) as of_metrics
  from summary
--include end_of_answer

-- name: health_by_hour
-- The values of the requested metrics by hour.
--include answer
with
--include frame
by_hour as (
    with slot as (
        select row_number() over (order by hour.n)::integer as position,
               hour.date,
               greatest(hour.starts_at, frame.starts_at) as starts_at,
               least(hour.ends_at, frame.ends_at) as ends_at
          from frame,
               lateral svc.hours(frame.first_day, frame.last_day, frame.tz) as hour
         where greatest(hour.starts_at, frame.starts_at) < least(hour.ends_at, frame.ends_at)
    ),
--include measured_in_slots
    select measured.metric,
           slot.starts_at,
           measured.value
      from measured
      join slot using (position)
),
point as (
    select metric,
           svc.instant(starts_at) as at,
           value
      from by_hour
),
--include series
rendered_series as (
    select coalesce(json_object_agg(metric, points), '{}') as series,
           coalesce(bool_or(is_cut), false) as is_cut
      from series
)
select *
  from rendered_series
--include end_of_answer

-- name: available_health
-- The available metrics, if the request names none or one that has no data.
--include answer
with
--include frame
--include requested_metrics
-- A night has the local date of the place where the person woke up.
is_listing as (
    select not coalesce(bool_and(is_known), false) as holds
      from requested_metric
),
day as (
    select touched.starts_at,
           touched.ends_at
      from frame,
           lateral svc.days(frame.first_day, frame.last_day, frame.tz) as touched
     where (select holds from is_listing)
),
measurable as (
    select metric_type,
           unit,
           aggregation
      from health.metric
     where user_id = %(user_id)s
       and (select holds from is_listing)
     union all
    select 'heart_rate',
           'bpm',
           'avg'
     where (select holds from is_listing)
),
available as (
    select 'health:' || measurable.metric_type as metric,
           measurable.unit,
           measurable.aggregation,
           (extent.first_at at time zone frame.tz)::date as first_day,
           (extent.last_at at time zone frame.tz)::date as last_day,
           (
               select count(*)
                 from day
                where exists (
                          select
                            from health.sample
                           where user_id = %(user_id)s
                             and metric_type = measurable.metric_type
                             and started_at >= day.starts_at
                             and started_at < day.ends_at
                      )
                   or measurable.metric_type = 'heart_rate'
                      and exists (
                          select
                            from health.heart_rate
                           where user_id = %(user_id)s
                             and recorded_at >= day.starts_at
                             and recorded_at < day.ends_at
                      )
           ) as days_measured
      from measurable,
           frame,
           lateral (
               select min(known.first_at) as first_at,
                      max(known.last_at) as last_at
                 from (
                          select min(started_at) as first_at,
                                 max(started_at) as last_at
                            from health.sample
                           where user_id = %(user_id)s
                             and metric_type = measurable.metric_type
                           union all
                          select min(recorded_at),
                                 max(recorded_at)
                            from health.heart_rate
                           where user_id = %(user_id)s
                             and measurable.metric_type = 'heart_rate'
                      ) as known
           ) as extent
     where extent.first_at is not null
     union all
    select metric_date.metric,
           null,
           'avg',
           min(metric_date.date),
           max(metric_date.date),
           count(distinct metric_date.date) filter (where metric_date.date between frame.first_day and frame.last_day)
      from health.sleep as sleep
      left join health.recovery as recovery
        on recovery.user_id = %(user_id)s
       and recovery.sleep_id = sleep.sleep_id
      left join health.cycle as cycle
        on cycle.user_id = %(user_id)s
       and cycle.sleep_id = sleep.sleep_id,
           frame,
           lateral (
               select metric,
                      (sleep.ended_at at time zone 'UTC' + sleep.utc_offset::interval)::date as date
                 from (
                          values ('recovery_score', recovery.score),
                                 ('strain_score', cycle.strain),
                                 ('asleep_ms', sleep.asleep_ms),
                                 ('deep_ms', sleep.deep_ms),
                                 ('rem_ms', sleep.rem_ms),
                                 ('hrv_rmssd_ms', recovery.hrv_rmssd_ms),
                                 ('resting_heart_rate_bpm', recovery.resting_heart_rate_bpm)
                      ) as measure (metric, value)
                where value is not null
           ) as metric_date
     where sleep.user_id = %(user_id)s
       and not sleep.is_nap
       and (select holds from is_listing)
     group by metric_date.metric
)
select
       (
           select coalesce(
                      json_agg(
                          json_build_object(
                              'metric', metric,
                              'unit', unit,
                              'aggregation', aggregation,
                              'first_day', first_day,
                              'last_day', last_day,
                              'days_measured', days_measured
                          )
                          order by metric collate "C"
                      )
                      filter (where n <= 50),
                      '[]'
                  )
             from (
                      select available.*,
                             row_number() over (order by days_measured desc, metric collate "C") as n
                        from available
                  ) as ranked
       ) as available,
       (select count(*) > 50 from available) as is_cut
--include end_of_answer
