-- Usable from version 20 on.
-- Older code does not write the new columns. Each has a default or may be null; the default of a key is unique.

-- Imports from other services. A row from a file or a connection has the service (`source`), the key of the record
-- there (`provider_key`) and the import that added it (`import_id`). A record that is imported again finds its row by
-- source and key. Keys are compared byte by byte (collation "C"): a comparison by the rules of a language takes ten
-- times as long, and an index needs about twenty of them for each row.

-- The import of one file. `key_hash` is the hash of the key that opens the import's session while it is running
-- (sql/functions/imports.sql). A run that continues a killed one has another key.
create table profile.import (
    user_id         uuid           not null,
    import_id       uuid           not null default gen_random_uuid(),
    file_name       text           not null,
    file_size       bigint         not null,
    digest          bytea          not null,
    chosen_format   text,
    status          text           not null default 'running',
    problem         text,
    key_hash        bytea,
    -- Members that no format recognises: their number, and the first names.
    ignored         integer        not null default 0,
    ignored_names   text[]         not null default '{}',
    started_at      timestamptz(3) not null default now(),
    finished_at     timestamptz(3),
    constraint import_pkey primary key (user_id, import_id),
    constraint import_file_name_is_short check (length(file_name) between 1 and 1024),
    constraint import_file_has_a_size check (file_size >= 0),
    constraint import_digest_is_sha256 check (length(digest) = 32),
    constraint import_key_hash_is_sha256 check (length(key_hash) = 32),
    constraint import_status_is_a_known_one check (
        status in ('running', 'interrupted', 'done', 'failed', 'undone')
    ),
    constraint import_year_has_four_digits check (
        least(started_at, finished_at) >= '0001-01-01 00:00:00+00'
        and greatest(started_at, finished_at) <= '9999-12-31 23:59:59.999+00'
    )
);
create index import_by_start on profile.import (user_id, started_at, import_id);

-- The progress and the result of one member of a file. `records` is the number of records that its reader has yielded
-- and that were written or refused; a run that continues the import skips as many. It is the sum of the four counts.
create table profile.import_part (
    user_id        uuid           not null,
    import_id      uuid           not null,
    name           text           not null,
    position       integer        not null,
    format         text,
    source         text,
    size           bigint         not null default 0,
    records        bigint         not null default 0,
    added          bigint         not null default 0,
    known          bigint         not null default 0,
    changed        bigint         not null default 0,
    refused        bigint         not null default 0,
    first_at       timestamptz(3),
    last_at        timestamptz(3),
    is_finished    boolean        not null default false,
    problem        text,
    constraint import_part_pkey primary key (user_id, import_id, name),
    constraint import_part_is_of_an_import
        foreign key (user_id, import_id) references profile.import on delete cascade,
    constraint import_part_adds_up check (records = added + known + changed + refused),
    constraint import_part_counts_up check (
        least(records, added, known, changed, refused, size) >= 0
    ),
    constraint import_part_year_has_four_digits check (
        least(first_at, last_at) >= '0001-01-01 00:00:00+00'
        and greatest(first_at, last_at) <= '9999-12-31 23:59:59.999+00'
    )
);

-- The reasons why records of a member were refused, each with its number of records and its first examples.
create table profile.import_refusal (
    user_id   uuid   not null,
    import_id uuid   not null,
    name      text   not null,
    reason    text   not null,
    count     bigint not null,
    examples  text[] not null default '{}',
    constraint import_refusal_pkey primary key (user_id, import_id, name, reason),
    constraint import_refusal_is_of_a_part
        foreign key (user_id, import_id, name) references profile.import_part on delete cascade,
    constraint import_refusal_counts_up check (count > 0),
    constraint import_refusal_reason_is_a_code check (reason ~ '^[a-z][a-z0-9_]{0,63}$')
);

-- A random default makes Postgres rewrite the whole table while it is locked. Only `svc demo` has written these tables
-- so far, so they are small. The tables that trackers fill come last, and only get a column without a default.
-- The foreign key from samples to metrics is dropped: checking it for each sample takes a fifth of the time of an
-- import. A metric is added before its first sample, and `svc demo` removes only metrics without samples.
alter table health.sample
    drop constraint sample_is_of_a_metric,
    add column source text not null default 'unknown',
    add column provider_key text collate "C" not null default gen_random_uuid()::text,
    add column import_id uuid,
    add constraint sample_is_known_once unique (user_id, source, provider_key);
alter table health.heart_rate
    add column source text not null default 'unknown',
    add column provider_key text collate "C" not null default gen_random_uuid()::text,
    add column import_id uuid,
    add constraint heart_rate_is_known_once unique (user_id, source, provider_key);
alter table health.sleep
    add column source text not null default 'unknown',
    add column provider_key text collate "C" not null default gen_random_uuid()::text,
    add column import_id uuid,
    add constraint sleep_is_known_once unique (user_id, source, provider_key);
alter table music.listen
    add column provider_key text collate "C" not null default gen_random_uuid()::text,
    add column import_id uuid,
    add constraint listen_is_known_once unique (user_id, source, provider_key);
alter table location.point
    add column provider_key text collate "C" not null default gen_random_uuid()::text,
    add column import_id uuid,
    add constraint point_is_known_once unique (user_id, source, provider_key);
alter table location.place
    add column source text not null default 'unknown',
    add column provider_key text collate "C" not null default gen_random_uuid()::text,
    add column import_id uuid,
    add constraint place_is_known_once unique (user_id, source, provider_key);
alter table location.event
    add column provider_key text collate "C" not null default gen_random_uuid()::text,
    add column import_id uuid,
    add constraint event_is_known_once unique (user_id, source, provider_key);
alter table content.recording
    add column provider_key text collate "C" not null default gen_random_uuid()::text,
    add column import_id uuid,
    add constraint recording_is_known_once unique (user_id, source, provider_key);
alter table content.title
    add column source text not null default 'unknown',
    add column provider_key text collate "C" not null default gen_random_uuid()::text,
    add column import_id uuid,
    add constraint title_is_known_once unique (user_id, source, provider_key);
alter table content.play
    add column provider_key text collate "C" not null default gen_random_uuid()::text,
    add column import_id uuid,
    add constraint play_is_known_once unique (user_id, source, provider_key);
alter table content.calendar_event
    add column source text not null default 'unknown',
    add column provider_key text collate "C" not null default gen_random_uuid()::text,
    add column import_id uuid,
    add constraint calendar_event_is_known_once unique (user_id, source, provider_key);
-- In calendars and events of code hosts, the column of the source is `provider`, as in answers.
alter table content.calendar
    add column provider_key text collate "C" not null default gen_random_uuid()::text,
    add column import_id uuid,
    add constraint calendar_is_known_once unique (user_id, provider, provider_key);
alter table code.event add column import_id uuid;
alter table activity.app_session add column import_id uuid;
alter table activity.coding_session add column import_id uuid;
