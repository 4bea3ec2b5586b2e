-- Usable from version 20 on.
-- Older code neither makes turns due nor takes them.

-- Work of the worker that waits or is being done: at most one turn for each person and kind of work. How a turn is
-- made due, claimed and ended is in sql/functions/turns.sql. Kinds are an open list (resourceserver/worker).
--
-- `due_at` is null while a worker has the turn and nobody has made it due again. `leased_until` is the end of the
-- worker's lease; null: no worker has the turn. `attempts` counts the claims since the last one that succeeded.
create table svc.turn (
    user_id      uuid        not null,
    kind         text        not null,
    due_at       timestamptz,
    leased_until timestamptz,
    attempts     integer     not null default 0,
    constraint turn_pkey primary key (user_id, kind),
    constraint turn_kind_is_a_name check (kind ~ '^[a-z][a-z_]{0,31}$'),
    constraint turn_is_due_or_leased check (due_at is not null or leased_until is not null),
    constraint turn_attempts_count_up check (attempts >= 0),
    constraint turn_year_has_four_digits check (
        least(due_at, leased_until) >= '0001-01-01 00:00:00+00'
        and greatest(due_at, leased_until) <= '9999-12-31 23:59:59.999+00'
    )
);

-- The time from which a turn can be claimed: when it is due, or when the lease of a worker ends that was killed.
create index turn_by_time on svc.turn (coalesce(leased_until, due_at));
