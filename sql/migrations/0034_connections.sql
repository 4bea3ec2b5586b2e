-- Usable from version 20 on.
-- Older code neither reads nor writes what is new here. It takes the import of a connection for one of a file that is
-- still being read.

-- A connection: an application that sends records here, or a service from which the worker pulls them
-- (shared/connections.py). What it brings belongs to an import of its own, which runs as long as the connection.
--
--   waiting ──► live ◄──► failing, refused      The state is the first that applies of: stopped, paused, refused,
--      └─────────┴──► paused ──► stopped        failing, live, waiting (svc.connection_state).
create table profile.connection (
    user_id         uuid           not null,
    connection_id   uuid           not null default gen_random_uuid(),
    kind            text           not null,
    -- The kind of data that it brings: the word of the scope that opens it.
    data            text           not null,
    name            text           not null,
    -- What its person chose, but for secrets.
    settings        jsonb          not null default '{}',
    -- How far the worker is, as the pull of this kind left it.
    state           jsonb          not null default '{}',
    import_id       uuid           not null,
    created_at      timestamptz(3) not null default now(),
    first_record_at timestamptz(3),
    last_record_at  timestamptz(3),
    record_count    bigint         not null default 0,
    -- Why nothing comes at present, as a code, and since when; refused: its key or password is no longer accepted.
    problem         text,
    failing_since   timestamptz(3),
    is_refused      boolean        not null default false,
    paused_at       timestamptz(3),
    stopped_at      timestamptz(3),
    last_pull_at    timestamptz(3),
    next_pull_at    timestamptz,
    failures        integer        not null default 0,
    constraint connection_pkey primary key (user_id, connection_id),
    constraint connection_has_an_import unique (user_id, import_id),
    constraint connection_kind_is_a_name check (kind ~ '^[a-z][a-z0-9_]{0,63}$'),
    constraint connection_data_is_a_known_one check (
        data in ('activity', 'music', 'location', 'health', 'content', 'code')
    ),
    constraint connection_name_is_short check (length(name) between 1 and 100),
    constraint connection_settings_are_short check (length(settings::text) <= 10000),
    constraint connection_state_is_short check (length(state::text) <= 100000),
    constraint connection_problem_is_a_code check (problem ~ '^[a-z][a-z0-9_]{0,63}$'),
    constraint connection_fails_since_some_time check ((problem is null) = (failing_since is null)),
    constraint connection_is_refused_for_a_reason check (problem is not null or not is_refused),
    constraint connection_counts_up check (least(record_count, failures) >= 0),
    constraint connection_year_has_four_digits check (
        least(created_at, first_record_at, last_record_at, failing_since, paused_at, stopped_at)
            >= '0001-01-01 00:00:00+00'
        and greatest(created_at, first_record_at, last_record_at, failing_since, paused_at, stopped_at)
            <= '9999-12-31 23:59:59.999+00'
        and least(last_pull_at, next_pull_at) >= '0001-01-01 00:00:00+00'
        and greatest(last_pull_at, next_pull_at) <= '9999-12-31 23:59:59.999+00'
    )
);
create index connection_by_pull on profile.connection (user_id, next_pull_at)
    where next_pull_at is not null;

-- The key with which an application sends to a connection, as a hash: it is shown once. A request has nothing but the
-- key, so the row is found by the hash alone. `scopes` is what the application may read with it: nothing, unless its
-- person has allowed it.
create table profile.integration_key (
    key_hash      bytea          not null,
    user_id       uuid           not null,
    connection_id uuid           not null,
    scopes        text[]         not null default '{}',
    created_at    timestamptz(3) not null default now(),
    last_used_at  timestamptz(3),
    constraint integration_key_pkey primary key (key_hash),
    constraint integration_key_is_the_only_one unique (user_id, connection_id),
    constraint integration_key_is_of_a_connection
        foreign key (user_id, connection_id) references profile.connection on delete cascade,
    constraint integration_key_hash_is_sha256 check (length(key_hash) = 32),
    constraint integration_key_scopes_are_known check (
        scopes <@ array['read:activity', 'read:music']
    ),
    constraint integration_key_year_has_four_digits check (
        least(created_at, last_used_at) >= '0001-01-01 00:00:00+00'
        and greatest(created_at, last_used_at) <= '9999-12-31 23:59:59.999+00'
    )
);

-- What opens an account at a service: addresses, passwords and tokens, each sealed to the public key of the workers
-- (shared/sealing.py). Nobody who answers requests may read it, and only a worker could open it.
create table profile.connection_secret (
    user_id       uuid           not null,
    connection_id uuid           not null,
    field         text           not null,
    key_id        text           not null,
    sealed        bytea          not null,
    sealed_at     timestamptz(3) not null default now(),
    constraint connection_secret_pkey primary key (user_id, connection_id, field),
    constraint connection_secret_is_of_a_connection
        foreign key (user_id, connection_id) references profile.connection on delete cascade,
    constraint connection_secret_field_is_a_name check (field ~ '^[a-z][a-z0-9_]{0,63}$'),
    constraint connection_secret_is_short check (length(sealed) <= 20000),
    constraint connection_secret_year_has_four_digits check (
        sealed_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    )
);

-- Nothing but invented rows were ever in it.
drop table profile.integration_credential;

-- The connection to which an import belongs; null for that of a file.
alter table profile.import
    add column connection_id uuid;
