-- name: health_summary
-- The value of each metric in a range: for metrics that add up the sum, with nothing counted twice, and the mean of
-- its days; for others the mean of all measurements.
--include answer
with
--include touched_days
metric as (
    select metric_type,
           unit,
           aggregation
      from health.metric
     where user_id = %(user_id)s
       and aggregation = 'sum'
),
--include health_amounts
summed as (
    select metric_type,
           sum(value) as total,
           avg(value) as average,
           min(value) as minimum,
           max(value) as maximum,
           count(*) as days_with_data
      from amount
     group by metric_type
),
-- Statistics of the metrics that do not add up; of the others only the number and the sources of their samples.
measured as (
    select metric_type,
           source_id,
           null::integer as position,
           sum(count) as count,
           null::double precision as value,
           null::double precision as minimum,
           null::double precision as maximum
      from sample_group
     group by metric_type,
              source_id
     union all
    select averaged.metric_type,
           taken.source_id,
           taken.position,
           taken.count,
           taken.value,
           taken.minimum,
           taken.maximum
      from health.metric as averaged,
           lateral (
               select source_id,
                      width_bucket(
                          greatest(started_at, (select starts_at from requested)),
                          (select starts from edge)
                      ) as position,
                      count(*) as count,
                      sum(value) as value,
                      min(value) as minimum,
                      max(value) as maximum
                 from health.sample
                where user_id = %(user_id)s
                  and metric_type = averaged.metric_type
                  and started_at > (select starts_at - interval '48 hours' from requested)
                  and started_at < (select ends_at from requested)
                  and (
                          ended_at > (select starts_at from requested)
                          or started_at >= (select starts_at from requested)
                      )
                  and (select starts_at < ends_at from requested)
                group by 1, 2
           ) as taken
     where averaged.user_id = %(user_id)s
       and averaged.aggregation = 'avg'
     union all
    select 'heart_rate',
           source_id,
           width_bucket(recorded_at, (select starts from edge)),
           count(*),
           sum(bpm),
           min(bpm),
           max(bpm)
      from health.heart_rate
     where user_id = %(user_id)s
       and recorded_at >= (select starts_at from requested)
       and recorded_at < (select ends_at from requested)
     group by 1, 2, 3
),
counted as (
    select measured.metric_type,
           sum(measured.count)::bigint as count,
           sum(measured.value) / sum(measured.count)::double precision as average,
           min(measured.minimum) as minimum,
           max(measured.maximum) as maximum,
           count(distinct measured.position) as days_with_data,
           json_agg(distinct ranked_source.name collate "C" order by ranked_source.name collate "C")
               filter (where ranked_source.name is not null) as sources
      from measured
      left join ranked_source using (source_id)
     group by measured.metric_type
),
described as (
    select metric_type,
           unit,
           aggregation
      from health.metric
     where user_id = %(user_id)s
     union all
    select 'heart_rate',
           'bpm',
           'avg'
),
row as (
    select described.metric_type,
           described.unit,
           described.aggregation,
           counted.count,
           svc.rounded(summed.total) as total,
           svc.rounded(coalesce(summed.average, counted.average)) as average,
           svc.rounded(coalesce(summed.minimum, counted.minimum)) as minimum,
           svc.rounded(coalesce(summed.maximum, counted.maximum)) as maximum,
           case described.aggregation when 'sum' then 'day' else 'sample' end as basis,
           coalesce(summed.days_with_data, counted.days_with_data) as days_with_data,
           latest.line as latest,
           coalesce(counted.sources, '[]') as sources
      from described
      join counted using (metric_type)
      left join summed using (metric_type),
           lateral (
               (
                   select json_build_object('value', value, 'recorded_at', svc.instant(ended_at)) as line
                     from health.sample
                    where user_id = %(user_id)s
                      and metric_type = described.metric_type
                      and started_at > %(from)s::timestamptz - interval '48 hours'
                      and started_at < %(to)s::timestamptz
                      and (ended_at > %(from)s::timestamptz or started_at >= %(from)s::timestamptz)
                    order by started_at desc,
                             sample_id desc
                    limit 1
               )
                union all
               (
                   select json_build_object('value', bpm, 'recorded_at', svc.instant(recorded_at))
                     from health.heart_rate
                    where user_id = %(user_id)s
                      and described.metric_type = 'heart_rate'
                      and recorded_at >= %(from)s::timestamptz
                      and recorded_at < %(to)s::timestamptz
                    order by recorded_at desc,
                             heart_rate_id desc
                    limit 1
               )
           ) as latest
)
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       %(given_tz)s::text as tz,
       (select coalesce(json_agg(row order by metric_type collate "C"), '[]') from row) as data
--include end_of_answer

-- name: health_samples
-- Samples of one metric that overlap a range, the newest first. Heart rate has a table of its own and is listed as
-- samples too, so one of the two halves is always empty.
--include answer
with taken as (
    (
        select sample_id,
               source_id,
               started_at,
               ended_at,
               value,
               utc_offset
          from health.sample
         where user_id = %(user_id)s
           and metric_type = %(metric_type)s::text
           -- No sample is longer than two days, so the index on its start bounds the search.
           and started_at > %(from)s::timestamptz - interval '48 hours'
           and started_at < %(to)s::timestamptz
           and (ended_at > %(from)s::timestamptz or started_at >= %(from)s::timestamptz)
           and %(from)s::timestamptz < %(to)s::timestamptz
           and (started_at, sample_id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
         order by started_at desc,
                  sample_id desc
         limit %(limit)s::bigint + 1
    )
     union all
    (
        select heart_rate_id,
               source_id,
               recorded_at,
               recorded_at,
               bpm,
               null
          from health.heart_rate
         where user_id = %(user_id)s
           and %(metric_type)s::text = 'heart_rate'
           and recorded_at >= %(from)s::timestamptz
           and recorded_at < %(to)s::timestamptz
           and (recorded_at, heart_rate_id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
         order by recorded_at desc,
                  heart_rate_id desc
         limit %(limit)s::bigint + 1
    )
),
metric as (
    select case
               when %(metric_type)s::text = 'heart_rate' then 'bpm'
               else (
                        select unit
                          from health.metric
                         where user_id = %(user_id)s
                           and metric_type = %(metric_type)s::text
                    )
           end as unit
),
list_row as (
    select taken.started_at as at,
           taken.sample_id as id,
           row_to_json(line) as line
      from taken
     cross join metric
      left join health.source as source
        on source.user_id = %(user_id)s
       and source.source_id = taken.source_id,
           lateral (
               select taken.sample_id as id,
                      %(metric_type)s::text as metric_type,
                      taken.value,
                      metric.unit,
                      svc.instant(taken.started_at) as started_at,
                      svc.instant(taken.ended_at) as ended_at,
                      taken.utc_offset,
                      case
                          when source.source_id is not null
                              then json_build_object(
                                       'provider', source.provider,
                                       'name', source.name,
                                       'device', source.device
                                   )
                      end as source
           ) as line
),
--include page
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       %(metric_type)s::text as metric_type,
       (select unit from metric) as unit,
       page.*
  from page
--include end_of_answer

-- name: heart_rate
-- Heart rate readings in a range, the newest first, and the minimum, maximum and average of the whole range.
--include answer
with list_row as (
    select reading.recorded_at as at,
           reading.heart_rate_id as id,
           row_to_json(line) as line
      from (
               select heart_rate_id,
                      recorded_at,
                      bpm,
                      rr_intervals_ms,
                      contact,
                      source_id
                 from health.heart_rate
                where user_id = %(user_id)s
                  and recorded_at >= %(from)s::timestamptz
                  and recorded_at < %(to)s::timestamptz
                  and (recorded_at, heart_rate_id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
                order by recorded_at desc,
                         heart_rate_id desc
                limit %(limit)s::bigint + 1
           ) as reading
      left join health.source as source
        on source.user_id = %(user_id)s
       and source.source_id = reading.source_id,
           lateral (
--include heart_rate
           ) as line
),
summary as (
    select min(bpm) as minimum,
           max(bpm) as maximum,
           svc.rounded(sum(bpm) / count(*)::double precision) as average
      from health.heart_rate
     where user_id = %(user_id)s
       and recorded_at >= %(from)s::timestamptz
       and recorded_at < %(to)s::timestamptz
),
--include page
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       'bpm' as unit,
       (select row_to_json(summary) from summary) as summary,
       page.*
  from page
--include end_of_answer

-- name: heart_rate_series
-- Heart rate readings in steps of equal length from the start of a range, in order, without steps that have none; and
-- the minimum, maximum and average of the whole range.
--include answer
with step as (
    select date_bin(
               %(step_s)s::bigint * interval '1 second',
               recorded_at,
               %(from)s::timestamptz
           ) as starts_at,
           count(*) as count,
           min(bpm) as minimum,
           max(bpm) as maximum,
           sum(bpm) as total
      from health.heart_rate
     where user_id = %(user_id)s
       and recorded_at >= %(from)s::timestamptz
       and recorded_at < %(to)s::timestamptz
     group by 1
),
row as (
    select svc.instant(starts_at) as starts_at,
           count,
           minimum,
           maximum,
           svc.rounded(total / count::double precision) as average
      from step
),
summary as (
    select min(minimum) as minimum,
           max(maximum) as maximum,
           svc.rounded((sum(total) / sum(count))::double precision) as average
      from step
)
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       'bpm' as unit,
       %(step_s)s::bigint * 1000 as step_ms,
       (select coalesce(json_agg(row order by starts_at), '[]') from row) as data,
       (select row_to_json(summary) from summary) as summary
--include end_of_answer

-- name: recovery
-- Recovery, strain and sleep for every calendar day of a range, in order.
--include answer
with requested_date as (
    select %(from)s::date as first,
           %(to)s::date as last
),
--include recovery_days
row as (
    select day.date,
           recovery_day.date is not null as has_data,
           recovery_day.provider,
           recovery_day.utc_offset,
           case
               when (recovery_day.recovery).sleep_id is not null then (
                   select row_to_json(part)
                     from (
                              select (recovery_day.recovery).score,
                                     (recovery_day.recovery).state,
                                     (recovery_day.recovery).resting_heart_rate_bpm,
                                     (recovery_day.recovery).hrv_rmssd_ms,
                                     (recovery_day.recovery).spo2_percent,
                                     (recovery_day.recovery).skin_temperature_c
                          ) as part
               )
           end as recovery,
           case
               when (recovery_day.cycle).sleep_id is not null then (
                   select row_to_json(part)
                     from (
                              select (recovery_day.cycle).strain as score,
                                     (recovery_day.cycle).strain_scale_max as scale_max,
                                     (recovery_day.cycle).energy_kj,
                                     (recovery_day.cycle).average_heart_rate_bpm,
                                     (recovery_day.cycle).max_heart_rate_bpm
                          ) as part
               )
           end as strain,
           case
               when recovery_day.date is not null then (
                   select row_to_json(part)
                     from (
                              select svc.instant((recovery_day.sleep).started_at) as started_at,
                                     svc.instant((recovery_day.sleep).ended_at) as ended_at,
                                     (recovery_day.sleep).in_bed_ms,
                                     (recovery_day.sleep).asleep_ms,
                                     (recovery_day.sleep).awake_ms,
                                     (recovery_day.sleep).light_ms,
                                     (recovery_day.sleep).deep_ms,
                                     (recovery_day.sleep).rem_ms,
                                     (recovery_day.sleep).no_data_ms,
                                     (recovery_day.sleep).latency_ms,
                                     (recovery_day.sleep).disturbance_count,
                                     (recovery_day.sleep).cycle_count,
                                     (recovery_day.sleep).efficiency_percent,
                                     (recovery_day.sleep).performance_percent,
                                     (recovery_day.sleep).consistency_percent,
                                     (recovery_day.sleep).need_ms,
                                     (recovery_day.sleep).debt_ms,
                                     (recovery_day.sleep).respiratory_rate_bpm,
                                     (recovery_day.sleep).average_heart_rate_bpm,
                                     (recovery_day.sleep).lowest_heart_rate_bpm,
                                     recovery_day.nap_count,
                                     recovery_day.nap_ms
                          ) as part
               )
           end as sleep
      from (
               select %(from)s::date + n as date
                 from generate_series(0, %(to)s::date - %(from)s::date) as n
           ) as day
      left join recovery_day using (date)
),
average as (
    select svc.rounded(avg((recovery).score)) as recovery_score,
           svc.rounded(avg((cycle).strain)) as strain_score,
           round(avg((sleep).asleep_ms))::bigint as asleep_ms,
           svc.rounded(avg((recovery).hrv_rmssd_ms)) as hrv_rmssd_ms,
           svc.rounded(avg((recovery).resting_heart_rate_bpm)) as resting_heart_rate_bpm
      from recovery_day
)
select json_build_object('from', %(from)s::date, 'to', %(to)s::date) as range,
       (select json_agg(row order by date) from row) as data,
       (select row_to_json(average) from average) as averages
--include end_of_answer
