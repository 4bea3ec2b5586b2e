-- How often something was tried. The key is the hash of a text that says what and by whom, so that
-- nothing that somebody typed stands here.

-- Attempts are forgotten one by one: `forgotten_at` is when the last of them will be, if no more come.
-- How many are left follows from the time until then.
create table identity.throttle (
    key_hash      bytea       not null,
    forgotten_at  timestamptz not null default now(),
    delayed_until timestamptz,
    constraint throttle_pkey primary key (key_hash),
    constraint throttle_key_is_a_sha_256 check (length(key_hash) = 32)
);
create index throttle_by_time on identity.throttle (forgotten_at);
