-- Writing what was measured of a body.

-- name: add_sensors
-- Adds what measured, as far as it is new.
insert into health.source (
    user_id,
    provider,
    name,
    device,
    kind,
    platform,
    priority
)
select %(user_id)s,
       %(source)s,
       sent.name,
       sent.device,
       sent.kind,
       sent.platform,
       sent.priority
  from json_to_recordset(%(sensors)s::json) as sent (
           name     text,
           device   text,
           kind     text,
           platform text,
           priority smallint
       )
 order by sent.name collate "C",
          sent.device collate "C"
    on conflict (user_id, provider, name, device) do nothing

-- name: sensors
-- What measured for this source under these names. The lock keeps it until the transaction has written its
-- measurements, which no foreign key does (sql/migrations/0030_unchecked_references.sql).
select source_id,
       name,
       device
  from health.source
 where user_id = %(user_id)s
   and provider = %(source)s
   and name = any (%(names)s::text[])
   for key share

-- name: add_metrics
-- Adds the metrics of a batch, as far as they are new.
insert into health.metric (user_id, metric_type, unit, aggregation)
select %(user_id)s,
       sent.metric_type,
       sent.unit,
       sent.aggregation
  from json_to_recordset(%(metrics)s::json) as sent (
           metric_type text,
           unit        text,
           aggregation text
       )
 order by sent.metric_type collate "C"
    on conflict do nothing

-- fragment: insert_samples
insert into health.sample (
    user_id,
    sample_id,
    source,
    provider_key,
    import_id,
    metric_type,
    source_id,
    started_at,
    ended_at,
    value,
    utc_offset,
    is_daily_total
)
select %(user_id)s,
       sent.id,
       %(source)s,
       sent.key,
       %(import_id)s,
       sent.metric_type,
       (%(sensor_ids)s::uuid[])[sent.sensor],
       sent.started_at,
       sent.ended_at,
       sent.value,
       sent.utc_offset,
       false
  from rows from (
           unnest(%(key)s::text[]),
           unnest(%(id)s::uuid[]),
           unnest(%(metric_type)s::text[]),
           unnest(%(sensor)s::integer[]),
           unnest(%(started_at)s::timestamptz[]),
           unnest(%(ended_at)s::timestamptz[]),
           unnest(%(value)s::double precision[]),
           unnest(%(utc_offset)s::text[])
       ) as sent (
           key,
           id,
           metric_type,
           sensor,
           started_at,
           ended_at,
           value,
           utc_offset
       )

-- name: add_new_samples
-- Writes measurements, which have different keys. No row: some may be known, because a known key lies between the first
-- and the last of them of one metric. This spares the search for each key by `add_samples`. A key that another transaction
-- adds at this moment violates the constraint.
--include insert_samples
 where not exists (
           select
             from (
                    select min(key collate "C") as first_key,
                           max(key collate "C") as last_key
                      from unnest(%(key)s::text[], %(metric_type)s::text[]) as each (key, metric_type)
                     group by metric_type
                  ) as extent
            cross join lateral (
                      select 1
                        from health.sample
                       where user_id = %(user_id)s
                         and source = %(source)s
                         and provider_key >= extent.first_key
                         and provider_key <= extent.last_key
                       limit 1
                  ) as known
       )
 order by sent.key collate "C"

-- name: add_samples
-- Writes measurements; the number of rows is that of the new ones. The first wins: what was measured does not
-- change.
--include insert_samples
 order by sent.key collate "C"
    on conflict (user_id, source, provider_key) do nothing

-- name: put_samples
-- Writes measurements that come again with other values. Of sums that grow, such as the total of a day, the one that
-- ends later wins, and of two with one end the larger one: that is the newer, whichever file comes first. Of others the
-- one that is written later wins.
with written as (
    insert into health.sample (
        user_id,
        sample_id,
        source,
        provider_key,
        import_id,
        metric_type,
        source_id,
        started_at,
        ended_at,
        value,
        utc_offset,
        is_daily_total
    )
    select %(user_id)s,
           sent.id::uuid,
           %(source)s,
           sent.key,
           %(import_id)s,
           sent.metric_type,
           (%(sensor_ids)s::uuid[])[sent.sensor::integer],
           timestamptz 'epoch' + sent.started_at::bigint * interval '1 millisecond',
           timestamptz 'epoch' + sent.ended_at::bigint * interval '1 millisecond',
           sent.value::double precision,
           sent.utc_offset,
           sent.is_daily_total::boolean
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(id)s::json),
               json_array_elements_text(%(metric_type)s::json),
               json_array_elements_text(%(sensor)s::json),
               json_array_elements_text(%(started_at)s::json),
               json_array_elements_text(%(ended_at)s::json),
               json_array_elements_text(%(value)s::json),
               json_array_elements_text(%(utc_offset)s::json),
               json_array_elements_text(%(is_daily_total)s::json)
           ) as sent (
               key,
               id,
               metric_type,
               sensor,
               started_at,
               ended_at,
               value,
               utc_offset,
               is_daily_total
           )
     order by sent.key collate "C"
        on conflict (user_id, source, provider_key) do update
       set metric_type = excluded.metric_type,
           source_id = excluded.source_id,
           started_at = excluded.started_at,
           ended_at = excluded.ended_at,
           value = excluded.value,
           utc_offset = excluded.utc_offset,
           is_daily_total = excluded.is_daily_total
     where case
               when %(is_growing)s::boolean
               then (excluded.ended_at, excluded.value) > (sample.ended_at, sample.value)
               else (
                        sample.metric_type,
                        sample.source_id,
                        sample.started_at,
                        sample.ended_at,
                        sample.value,
                        sample.utc_offset,
                        sample.is_daily_total
                    ) is distinct from (
                        excluded.metric_type,
                        excluded.source_id,
                        excluded.started_at,
                        excluded.ended_at,
                        excluded.value,
                        excluded.utc_offset,
                        excluded.is_daily_total
                    )
           end
    returning provider_key,
              xmax = 0 as is_new
)
select provider_key,
       is_new
  from written

-- fragment: insert_heart_rates
insert into health.heart_rate (
    user_id,
    heart_rate_id,
    source,
    provider_key,
    import_id,
    recorded_at,
    bpm,
    rr_intervals_ms,
    contact,
    source_id
)
select %(user_id)s,
       sent.id,
       %(source)s,
       sent.key,
       %(import_id)s,
       sent.recorded_at,
       sent.bpm::smallint,
       coalesce(sent.rr_intervals_ms::integer[], '{}'),
       sent.contact::boolean,
       (%(sensor_ids)s::uuid[])[sent.sensor]
  from rows from (
           unnest(%(key)s::text[]),
           unnest(%(id)s::uuid[]),
           unnest(%(recorded_at)s::timestamptz[]),
           unnest(%(bpm)s::integer[]),
           json_array_elements_text(%(rr_intervals_ms)s::json),
           json_array_elements_text(%(contact)s::json),
           unnest(%(sensor)s::integer[])
       ) as sent (
           key,
           id,
           recorded_at,
           bpm,
           rr_intervals_ms,
           contact,
           sensor
       )

-- name: add_new_heart_rates
-- Writes heart rates, which have different keys. No row: some may be known, because a known key lies between the first
-- and the last of them. This spares the search for each key by `add_heart_rates`. A key that another transaction
-- adds at this moment violates the constraint.
--include insert_heart_rates
 where not exists (
           select
             from (
                    select min(key collate "C") as first_key,
                           max(key collate "C") as last_key
                      from unnest(%(key)s::text[]) as each (key)
                  ) as extent
            cross join lateral (
                      select 1
                        from health.heart_rate
                       where user_id = %(user_id)s
                         and source = %(source)s
                         and provider_key >= extent.first_key
                         and provider_key <= extent.last_key
                       limit 1
                  ) as known
       )
 order by sent.key collate "C"

-- name: add_heart_rates
-- Writes heart rates; the number of rows is that of the new ones. The first wins, as of measurements.
--include insert_heart_rates
 order by sent.key collate "C"
    on conflict (user_id, source, provider_key) do nothing

-- name: put_sleeps
-- Writes sleeps. The newer wins: sources correct a sleep, and score it, after it was recorded. But an offset that the
-- source does not say never replaces one that is known.
with written as (
    insert into health.sleep (
        user_id,
        sleep_id,
        source,
        provider_key,
        import_id,
        source_id,
        started_at,
        ended_at,
        utc_offset,
        is_offset_derived,
        is_nap,
        in_bed_ms,
        asleep_ms,
        awake_ms,
        light_ms,
        deep_ms,
        rem_ms,
        no_data_ms,
        latency_ms,
        disturbance_count,
        cycle_count,
        efficiency_percent,
        performance_percent,
        consistency_percent,
        need_ms,
        debt_ms,
        respiratory_rate_bpm,
        average_heart_rate_bpm,
        lowest_heart_rate_bpm
    )
    select %(user_id)s,
           sent.id::uuid,
           %(source)s,
           sent.key,
           %(import_id)s,
           (%(sensor_ids)s::uuid[])[sent.sensor::integer],
           timestamptz 'epoch' + sent.started_at::bigint * interval '1 millisecond',
           timestamptz 'epoch' + sent.ended_at::bigint * interval '1 millisecond',
           sent.utc_offset,
           sent.is_offset_derived::boolean,
           sent.is_nap::boolean,
           sent.in_bed_ms::bigint,
           sent.asleep_ms::bigint,
           sent.awake_ms::bigint,
           sent.light_ms::bigint,
           sent.deep_ms::bigint,
           sent.rem_ms::bigint,
           sent.no_data_ms::bigint,
           sent.latency_ms::bigint,
           sent.disturbance_count::integer,
           sent.cycle_count::integer,
           sent.efficiency_percent::double precision,
           sent.performance_percent::double precision,
           sent.consistency_percent::double precision,
           sent.need_ms::bigint,
           sent.debt_ms::bigint,
           sent.respiratory_rate_bpm::double precision,
           sent.average_heart_rate_bpm::double precision,
           sent.lowest_heart_rate_bpm::double precision
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(id)s::json),
               json_array_elements_text(%(sensor)s::json),
               json_array_elements_text(%(started_at)s::json),
               json_array_elements_text(%(ended_at)s::json),
               json_array_elements_text(%(utc_offset)s::json),
               json_array_elements_text(%(is_offset_derived)s::json),
               json_array_elements_text(%(is_nap)s::json),
               json_array_elements_text(%(in_bed_ms)s::json),
               json_array_elements_text(%(asleep_ms)s::json),
               json_array_elements_text(%(awake_ms)s::json),
               json_array_elements_text(%(light_ms)s::json),
               json_array_elements_text(%(deep_ms)s::json),
               json_array_elements_text(%(rem_ms)s::json),
               json_array_elements_text(%(no_data_ms)s::json),
               json_array_elements_text(%(latency_ms)s::json),
               json_array_elements_text(%(disturbance_count)s::json),
               json_array_elements_text(%(cycle_count)s::json),
               json_array_elements_text(%(efficiency_percent)s::json),
               json_array_elements_text(%(performance_percent)s::json),
               json_array_elements_text(%(consistency_percent)s::json),
               json_array_elements_text(%(need_ms)s::json),
               json_array_elements_text(%(debt_ms)s::json),
               json_array_elements_text(%(respiratory_rate_bpm)s::json),
               json_array_elements_text(%(average_heart_rate_bpm)s::json),
               json_array_elements_text(%(lowest_heart_rate_bpm)s::json)
           ) as sent (
               key,
               id,
               sensor,
               started_at,
               ended_at,
               utc_offset,
               is_offset_derived,
               is_nap,
               in_bed_ms,
               asleep_ms,
               awake_ms,
               light_ms,
               deep_ms,
               rem_ms,
               no_data_ms,
               latency_ms,
               disturbance_count,
               cycle_count,
               efficiency_percent,
               performance_percent,
               consistency_percent,
               need_ms,
               debt_ms,
               respiratory_rate_bpm,
               average_heart_rate_bpm,
               lowest_heart_rate_bpm
           )
     order by sent.key collate "C"
        on conflict (user_id, source, provider_key) do update
       set source_id = excluded.source_id,
           started_at = excluded.started_at,
           ended_at = excluded.ended_at,
           utc_offset = case
               when excluded.is_offset_derived
               then sleep.utc_offset
               else excluded.utc_offset
           end,
           is_offset_derived = sleep.is_offset_derived
               and (excluded.is_offset_derived or excluded.utc_offset = sleep.utc_offset),
           is_nap = excluded.is_nap,
           in_bed_ms = excluded.in_bed_ms,
           asleep_ms = excluded.asleep_ms,
           awake_ms = excluded.awake_ms,
           light_ms = excluded.light_ms,
           deep_ms = excluded.deep_ms,
           rem_ms = excluded.rem_ms,
           no_data_ms = excluded.no_data_ms,
           latency_ms = excluded.latency_ms,
           disturbance_count = excluded.disturbance_count,
           cycle_count = excluded.cycle_count,
           efficiency_percent = excluded.efficiency_percent,
           performance_percent = excluded.performance_percent,
           consistency_percent = excluded.consistency_percent,
           need_ms = excluded.need_ms,
           debt_ms = excluded.debt_ms,
           respiratory_rate_bpm = excluded.respiratory_rate_bpm,
           average_heart_rate_bpm = excluded.average_heart_rate_bpm,
           lowest_heart_rate_bpm = excluded.lowest_heart_rate_bpm
     where (
               sleep.source_id,
               sleep.started_at,
               sleep.ended_at,
               sleep.utc_offset,
               sleep.is_offset_derived,
               sleep.is_nap,
               sleep.in_bed_ms,
               sleep.asleep_ms,
               sleep.awake_ms,
               sleep.light_ms,
               sleep.deep_ms,
               sleep.rem_ms,
               sleep.no_data_ms,
               sleep.latency_ms,
               sleep.disturbance_count,
               sleep.cycle_count,
               sleep.efficiency_percent,
               sleep.performance_percent,
               sleep.consistency_percent,
               sleep.need_ms,
               sleep.debt_ms,
               sleep.respiratory_rate_bpm,
               sleep.average_heart_rate_bpm,
               sleep.lowest_heart_rate_bpm
           ) is distinct from (
               excluded.source_id,
               excluded.started_at,
               excluded.ended_at,
               case
                   when excluded.is_offset_derived
                   then sleep.utc_offset
                   else excluded.utc_offset
               end,
               sleep.is_offset_derived
                   and (excluded.is_offset_derived or excluded.utc_offset = sleep.utc_offset),
               excluded.is_nap,
               excluded.in_bed_ms,
               excluded.asleep_ms,
               excluded.awake_ms,
               excluded.light_ms,
               excluded.deep_ms,
               excluded.rem_ms,
               excluded.no_data_ms,
               excluded.latency_ms,
               excluded.disturbance_count,
               excluded.cycle_count,
               excluded.efficiency_percent,
               excluded.performance_percent,
               excluded.consistency_percent,
               excluded.need_ms,
               excluded.debt_ms,
               excluded.respiratory_rate_bpm,
               excluded.average_heart_rate_bpm,
               excluded.lowest_heart_rate_bpm
           )
    returning provider_key,
              ended_at,
              is_offset_derived,
              xmax = 0 as is_new
)
select provider_key,
       is_new,
       case when is_offset_derived then (ended_at at time zone 'UTC')::date end
  from written

-- name: put_recoveries
-- Writes the recoveries after sleeps, and returns the keys of those sleeps whose recovery is new or another one.
with written as (
    insert into health.recovery (
        user_id,
        sleep_id,
        state,
        score,
        resting_heart_rate_bpm,
        hrv_rmssd_ms,
        spo2_percent,
        skin_temperature_c
    )
    select %(user_id)s,
           sleep.sleep_id,
           sent.state,
           sent.score::double precision,
           sent.resting_heart_rate_bpm::double precision,
           sent.hrv_rmssd_ms::double precision,
           sent.spo2_percent::double precision,
           sent.skin_temperature_c::double precision
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(state)s::json),
               json_array_elements_text(%(score)s::json),
               json_array_elements_text(%(resting_heart_rate_bpm)s::json),
               json_array_elements_text(%(hrv_rmssd_ms)s::json),
               json_array_elements_text(%(spo2_percent)s::json),
               json_array_elements_text(%(skin_temperature_c)s::json)
           ) as sent (
               key,
               state,
               score,
               resting_heart_rate_bpm,
               hrv_rmssd_ms,
               spo2_percent,
               skin_temperature_c
           )
      join health.sleep
        on sleep.user_id = %(user_id)s
       and sleep.source = %(source)s
       and sleep.provider_key = sent.key
     order by sent.key collate "C"
        on conflict (user_id, sleep_id) do update
       set state = excluded.state,
           score = excluded.score,
           resting_heart_rate_bpm = excluded.resting_heart_rate_bpm,
           hrv_rmssd_ms = excluded.hrv_rmssd_ms,
           spo2_percent = excluded.spo2_percent,
           skin_temperature_c = excluded.skin_temperature_c
     where (
               recovery.state,
               recovery.score,
               recovery.resting_heart_rate_bpm,
               recovery.hrv_rmssd_ms,
               recovery.spo2_percent,
               recovery.skin_temperature_c
           ) is distinct from (
               excluded.state,
               excluded.score,
               excluded.resting_heart_rate_bpm,
               excluded.hrv_rmssd_ms,
               excluded.spo2_percent,
               excluded.skin_temperature_c
           )
    returning sleep_id
)
select sleep.provider_key
  from written
  join health.sleep
    on sleep.user_id = %(user_id)s
   and sleep.sleep_id = written.sleep_id

-- name: put_cycles
-- Writes the cycles that began with sleeps, and returns the keys of those sleeps whose cycle is new or another one.
with written as (
    insert into health.cycle (
        user_id,
        sleep_id,
        started_at,
        ended_at,
        strain,
        strain_scale_max,
        energy_kj,
        average_heart_rate_bpm,
        max_heart_rate_bpm
    )
    select %(user_id)s,
           sleep.sleep_id,
           timestamptz 'epoch' + sent.started_at::bigint * interval '1 millisecond',
           timestamptz 'epoch' + sent.ended_at::bigint * interval '1 millisecond',
           sent.strain::double precision,
           sent.strain_scale_max::double precision,
           sent.energy_kj::double precision,
           sent.average_heart_rate_bpm::double precision,
           sent.max_heart_rate_bpm::double precision
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(started_at)s::json),
               json_array_elements_text(%(ended_at)s::json),
               json_array_elements_text(%(strain)s::json),
               json_array_elements_text(%(strain_scale_max)s::json),
               json_array_elements_text(%(energy_kj)s::json),
               json_array_elements_text(%(average_heart_rate_bpm)s::json),
               json_array_elements_text(%(max_heart_rate_bpm)s::json)
           ) as sent (
               key,
               started_at,
               ended_at,
               strain,
               strain_scale_max,
               energy_kj,
               average_heart_rate_bpm,
               max_heart_rate_bpm
           )
      join health.sleep
        on sleep.user_id = %(user_id)s
       and sleep.source = %(source)s
       and sleep.provider_key = sent.key
     order by sent.key collate "C"
        on conflict (user_id, sleep_id) do update
       set started_at = excluded.started_at,
           ended_at = excluded.ended_at,
           strain = excluded.strain,
           strain_scale_max = excluded.strain_scale_max,
           energy_kj = excluded.energy_kj,
           average_heart_rate_bpm = excluded.average_heart_rate_bpm,
           max_heart_rate_bpm = excluded.max_heart_rate_bpm
     where (
               cycle.started_at,
               cycle.ended_at,
               cycle.strain,
               cycle.strain_scale_max,
               cycle.energy_kj,
               cycle.average_heart_rate_bpm,
               cycle.max_heart_rate_bpm
           ) is distinct from (
               excluded.started_at,
               excluded.ended_at,
               excluded.strain,
               excluded.strain_scale_max,
               excluded.energy_kj,
               excluded.average_heart_rate_bpm,
               excluded.max_heart_rate_bpm
           )
    returning sleep_id
)
select sleep.provider_key
  from written
  join health.sleep
    on sleep.user_id = %(user_id)s
   and sleep.sleep_id = written.sleep_id
