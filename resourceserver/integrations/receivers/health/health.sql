-- Writing what messages about health contain, in the transaction of one message.

-- name: lock_connection
-- Locks the connection, so that its messages are written one after another.
select svc.lock_connection()

-- name: add_message
-- Notes a message; no row: it was written within the last 30 days.
insert into health.message (user_id, body_digest, import_id)
values (%(user_id)s, %(body_digest)s, %(import_id)s)
    on conflict (user_id, body_digest) do nothing
returning body_digest

-- name: forget_messages
-- Removes what is older than 30 days.
select svc.forget_health_messages()

-- name: put_heart_rates
-- Writes heart rates. The newer one wins, as of measurements (imports/health.sql).
with written as (
    insert into health.heart_rate (
        user_id,
        heart_rate_id,
        source,
        provider_key,
        import_id,
        recorded_at,
        bpm,
        source_id
    )
    select %(user_id)s,
           sent.id::uuid,
           %(source)s,
           sent.key,
           %(import_id)s,
           timestamptz 'epoch' + sent.recorded_at::bigint * interval '1 millisecond',
           sent.bpm::smallint,
           (%(sensor_ids)s::uuid[])[sent.sensor::integer]
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(id)s::json),
               json_array_elements_text(%(recorded_at)s::json),
               json_array_elements_text(%(bpm)s::json),
               json_array_elements_text(%(sensor)s::json)
           ) as sent (
               key,
               id,
               recorded_at,
               bpm,
               sensor
           )
     order by sent.key collate "C"
        on conflict (user_id, source, provider_key) do update
       set recorded_at = excluded.recorded_at,
           bpm = excluded.bpm,
           source_id = excluded.source_id
     where (heart_rate.recorded_at, heart_rate.bpm, heart_rate.source_id)
           is distinct from (excluded.recorded_at, excluded.bpm, excluded.source_id)
    returning provider_key,
              xmax = 0 as is_new
)
select provider_key,
       is_new
  from written

-- name: add_buckets
-- Adds parts of buckets to what was there of each: counts and totals add up, and minimum and maximum are those of all
-- parts. The sample or the heart rate of a bucket has its total, or the mean of its samples.
with written as (
    insert into health.bucket (
        user_id,
        source,
        provider_key,
        import_id,
        metric_type,
        sample_count,
        total,
        minimum,
        maximum
    )
    select %(user_id)s,
           %(source)s,
           sent.key,
           %(import_id)s,
           sent.metric_type,
           sent.sample_count::bigint,
           sent.total::numeric,
           sent.minimum::double precision,
           sent.maximum::double precision
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(metric_type)s::json),
               json_array_elements_text(%(sample_count)s::json),
               json_array_elements_text(%(total)s::json),
               json_array_elements_text(%(minimum)s::json),
               json_array_elements_text(%(maximum)s::json)
           ) as sent (
               key,
               metric_type,
               sample_count,
               total,
               minimum,
               maximum
           )
     order by sent.key collate "C"
        on conflict (user_id, source, provider_key) do update
       set sample_count = bucket.sample_count + excluded.sample_count,
           total = bucket.total + excluded.total,
           minimum = least(bucket.minimum, excluded.minimum),
           maximum = greatest(bucket.maximum, excluded.maximum)
    returning provider_key,
              metric_type,
              sample_count,
              total
),
measured as (
    select written.provider_key,
           written.metric_type,
           sent.id::uuid as id,
           (%(sensor_ids)s::uuid[])[sent.sensor::integer] as source_id,
           timestamptz 'epoch' + sent.started_at::bigint * interval '1 millisecond' as started_at,
           timestamptz 'epoch' + sent.ended_at::bigint * interval '1 millisecond' as ended_at,
           case
               when written.metric_type = any (%(sums)s::text[]) then written.total
               else written.total / written.sample_count
           end as value
      from written
      join rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(id)s::json),
               json_array_elements_text(%(sensor)s::json),
               json_array_elements_text(%(started_at)s::json),
               json_array_elements_text(%(ended_at)s::json)
           ) as sent (
               key,
               id,
               sensor,
               started_at,
               ended_at
           )
        on sent.key = written.provider_key
),
sampled as (
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
        value
    )
    select %(user_id)s,
           id,
           %(source)s,
           provider_key,
           %(import_id)s,
           metric_type,
           source_id,
           started_at,
           ended_at,
           -- What no sample can be is brought to what it can be: many parts could add up to more.
           case
               when abs(value) < 1e-15 then 0
               else greatest(-1e15, least(1e15, value))
           end::double precision
      from measured
     where metric_type <> 'heart_rate'
     order by provider_key
        on conflict (user_id, source, provider_key) do update
       set value = excluded.value
    returning provider_key,
              xmax = 0 as is_new
),
beaten as (
    insert into health.heart_rate (
        user_id,
        heart_rate_id,
        source,
        provider_key,
        import_id,
        recorded_at,
        bpm,
        source_id
    )
    select %(user_id)s,
           id,
           %(source)s,
           provider_key,
           %(import_id)s,
           started_at,
           round(value)::smallint,
           source_id
      from measured
     where metric_type = 'heart_rate'
     order by provider_key
        on conflict (user_id, source, provider_key) do update
       set bpm = excluded.bpm
    returning provider_key,
              xmax = 0 as is_new
)
select provider_key,
       is_new
  from sampled
 union all
select provider_key,
       is_new
  from beaten

-- name: add_stages
-- Adds stages of sleep; the number of rows is that of the new ones.
insert into health.sleep_stage (
    user_id,
    source,
    sensor,
    started_at,
    ended_at,
    kind,
    import_id
)
select %(user_id)s,
       %(source)s,
       sent.sensor,
       timestamptz 'epoch' + sent.started_at::bigint * interval '1 millisecond',
       timestamptz 'epoch' + sent.ended_at::bigint * interval '1 millisecond',
       sent.kind,
       %(import_id)s
  from rows from (
           json_array_elements_text(%(sensor)s::json),
           json_array_elements_text(%(started_at)s::json),
           json_array_elements_text(%(ended_at)s::json),
           json_array_elements_text(%(kind)s::json)
       ) as sent (
           sensor,
           started_at,
           ended_at,
           kind
       )
 order by sent.sensor collate "C",
          sent.started_at::bigint,
          sent.ended_at::bigint,
          sent.kind collate "C"
    on conflict (user_id, source, sensor, started_at, ended_at, kind) do nothing

-- name: stages
-- The stages of one sensor that lie within or near a time.
select started_at,
       ended_at,
       kind
  from health.sleep_stage
 where user_id = %(user_id)s
   and source = %(source)s
   and sensor = %(sensor)s
   -- No stage is longer than two days.
   and started_at > %(first)s::timestamptz - interval '96 hours'
   and started_at < %(last)s::timestamptz + interval '48 hours'
   and ended_at > %(first)s::timestamptz - interval '48 hours'
 order by started_at

-- name: joined_sleeps
-- The sleeps that consist of stages of one sensor and overlap one of these times.
select distinct sleep.provider_key,
                sleep.started_at,
                sleep.ended_at
  from unnest(%(firsts)s::timestamptz[], %(lasts)s::timestamptz[]) as span (starts_at, ends_at)
  join health.sleep as sleep
    on sleep.user_id = %(user_id)s
   and sleep.ended_at > span.starts_at
   -- No sleep of stages is longer than two days.
   and sleep.ended_at < span.ends_at + interval '48 hours'
   and sleep.started_at < span.ends_at
  join health.source as source
    on source.user_id = %(user_id)s
   and source.source_id = sleep.source_id
 where sleep.source = %(source)s
   and starts_with(sleep.provider_key, 'stages:')
   and source.name = %(sensor)s

-- name: remove_joined_sleeps
-- Removes sleeps whose stages belong to others now.
select svc.remove_joined_sleeps(%(source)s, %(keys)s::text[])
