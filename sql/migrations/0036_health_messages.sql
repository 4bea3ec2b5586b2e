-- Usable from version 20 on.
-- Older code neither reads nor writes what is new here.

-- The messages about health that phones have sent within 30 days, by the digests of their bodies. What is added to
-- buckets must not be added twice, and an application that misses an answer sends the same body again.
create table health.message (
    user_id     uuid           not null,
    body_digest bytea          not null,
    import_id   uuid           not null,
    received_at timestamptz(3) not null default now(),
    constraint message_pkey primary key (user_id, body_digest),
    constraint message_digest_is_sha256 check (length(body_digest) = 32),
    constraint message_year_has_four_digits check (
        received_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    )
);
create index message_by_time on health.message (user_id, received_at);

-- What was measured in a window of time, of which later messages may bring more. The sample or the heart rate of the
-- same source and key has what follows from it. `total` is exact, so that it does not depend on the order of its parts.
create table health.bucket (
    user_id      uuid             not null,
    source       text             not null,
    provider_key text collate "C" not null,
    import_id    uuid             not null,
    metric_type  text             not null,
    sample_count bigint           not null,
    total        numeric          not null,
    minimum      double precision,
    maximum      double precision,
    constraint bucket_pkey primary key (user_id, source, provider_key),
    constraint bucket_counts_samples check (sample_count between 1 and 1000000000000000),
    constraint bucket_has_finite_measures check (
        abs(minimum) <= 1e15 and abs(maximum) <= 1e15 and abs(total) <= 1e30
    )
);
create index bucket_by_import on health.bucket (user_id, import_id);

-- The stages of sleep that came in messages within 30 days. Those of one night may come in several messages, and are
-- joined with each other anew when more come.
create table health.sleep_stage (
    user_id     uuid             not null,
    source      text             not null,
    sensor      text collate "C" not null,
    started_at  timestamptz(3)   not null,
    ended_at    timestamptz(3)   not null,
    kind        text             not null,
    import_id   uuid             not null,
    received_at timestamptz(3)   not null default now(),
    constraint sleep_stage_pkey primary key (user_id, source, sensor, started_at, ended_at, kind),
    constraint sleep_stage_ends_after_its_start check (ended_at > started_at),
    constraint sleep_stage_is_of_a_known_kind check (
        kind in ('InBed', 'Awake', 'Asleep', 'AsleepCore', 'AsleepDeep', 'AsleepREM')
    ),
    constraint sleep_stage_year_has_four_digits check (
        least(started_at, ended_at, received_at) >= '0001-01-01 00:00:00+00'
        and greatest(started_at, ended_at, received_at) <= '9999-12-31 23:59:59.999+00'
    )
);
create index sleep_stage_by_time on health.sleep_stage (user_id, received_at);
