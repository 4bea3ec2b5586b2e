-- The turns of the worker: how they are made due, claimed and ended. May run again at any time.
--
--     make_due ──► due ──claim_turn──► leased ──finish_turn──► no row, or due again after a time
--                   ▲                   │  ▲│
--                   │                   │  └┴ renew_turn, again and again while the work lasts
--                   ├─put_off_turn──────┤
--                   ├─give_back_turn────┤
--                   └─the lease ends────┘
--
-- The commits of claims and ends do not wait for the disk: a turn whose claim or end is lost in a crash of the server
-- comes again, as after that of a worker. A later commit that waits brings them to the disk as well.
--
-- The end of its lease proves that a worker still has a turn: it is another one with each claim and each renewal.
-- Only svc.make_due runs with the rights of its caller, so that row-level security holds: a session makes turns of its
-- own person due. The other functions are the worker's, which serves all people.

-- Makes a person's turn due at a time, or an existing one due earlier. A turn that is put off after a failure stays so.
-- While a worker has the turn, it becomes due again after this worker's end, since the worker may have looked before.
create or replace function svc.make_due(
    p_user_id uuid,
    p_kind    text,
    p_at      timestamptz default now()
)
returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
    insert into svc.turn (user_id, kind, due_at)
    values (p_user_id, p_kind, p_at)
        on conflict (user_id, kind) do update
       set due_at = excluded.due_at
     where (turn.due_at is null or turn.due_at > excluded.due_at)
       and (turn.leased_until is not null or turn.attempts = 0)
$$;

-- Makes turns of a kind due now for people who have none of it. Turns that a worker has, or that are put off, stay as
-- they are, so this is for lists that are looked through again and again.
create or replace function svc.add_turns(p_kind text, p_user_ids uuid[])
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    insert into svc.turn (user_id, kind, due_at)
    select user_id,
           p_kind,
           now()
      from unnest(p_user_ids) as person (user_id)
        on conflict (user_id, kind) do nothing
$$;

-- How long a lease is: the usual length for the first attempt, and twice as long for each further one, up to 64 times.
-- So a turn that kills each worker that takes it comes back ever less often.
create or replace function svc.lease_of(p_lease interval, p_attempt integer)
returns interval
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
    select p_lease * (1 << least(p_attempt - 1, 6))
$$;

-- Claims the turn of these kinds that has waited longest, and returns it with the end of its lease and the number of
-- this attempt; no row: none is due. Raises 57SV1 and 57SV2 if the worker's version does not fit the schema
-- (versions.sql).
-- In PL/pgSQL, because an SQL function locks all its tables before its first statement runs (PostgreSQL 15),
-- and would hold those locks while the check waits for a migration.
create or replace function svc.claim_turn(
    p_kinds   text[],
    p_version integer  default null,
    p_lease   interval default '60 seconds'
)
returns table (user_id uuid, kind text, leased_until timestamptz, attempt integer)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform svc.check_version(p_version);
    set local synchronous_commit = off;
    return query
    with next as materialized (
        select turn.user_id,
               turn.kind
          from svc.turn
         where turn.kind = any (p_kinds)
           and coalesce(turn.leased_until, turn.due_at) <= now()
         order by coalesce(turn.leased_until, turn.due_at)
         limit 1
           for update skip locked
    )
    update svc.turn
       set due_at = case when turn.due_at > now() then turn.due_at end,
           leased_until = now() + svc.lease_of(p_lease, turn.attempts + 1),
           attempts = turn.attempts + 1
      from next
     where turn.user_id = next.user_id
       and turn.kind = next.kind
    returning turn.user_id,
              turn.kind,
              turn.leased_until,
              turn.attempts;
end
$$;

-- Renews a lease, and returns its new end; no row: another worker has the turn, or it is gone.
create or replace function svc.renew_turn(
    p_user_id      uuid,
    p_kind         text,
    p_leased_until timestamptz,
    p_lease        interval default '60 seconds'
)
returns setof timestamptz
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    update svc.turn
       set leased_until = now() + svc.lease_of(p_lease, attempts)
     where user_id = p_user_id
       and kind = p_kind
       and leased_until = p_leased_until
    returning leased_until
$$;

-- Ends a turn whose work is done. It is due again after `p_wait`, which the clock of the database measures, or at the
-- earlier time at which it was made due meanwhile; without either it is gone. With a wait of 0, it is behind all others
-- that are due. No row: another worker has the turn, or it is gone.
create or replace function svc.finish_turn(
    p_user_id      uuid,
    p_kind         text,
    p_leased_until timestamptz,
    p_wait         interval default null
)
returns setof boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    set local synchronous_commit = off;
    delete from svc.turn
     where user_id = p_user_id
       and kind = p_kind
       and leased_until = p_leased_until
       and due_at is null
       and p_wait is null;
    if found then
        return query select true;
        return;
    end if;
    return query
    update svc.turn
       set due_at = least(due_at, now() + p_wait),
           leased_until = null,
           attempts = 0
     where user_id = p_user_id
       and kind = p_kind
       and leased_until = p_leased_until
    returning true;
end
$$;

-- Ends a turn whose work has failed: it is due after a time, whenever else it was made due meanwhile. No row:
-- another worker has the turn, or it is gone.
create or replace function svc.put_off_turn(
    p_user_id      uuid,
    p_kind         text,
    p_leased_until timestamptz,
    p_wait         interval
)
returns setof boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    update svc.turn
       set due_at = now() + p_wait,
           leased_until = null
     where user_id = p_user_id
       and kind = p_kind
       and leased_until = p_leased_until
    returning true
$$;

-- Gives a turn back as if it had not been claimed, so that another worker takes it at once. No row: another
-- worker has the turn, or it is gone.
create or replace function svc.give_back_turn(
    p_user_id      uuid,
    p_kind         text,
    p_leased_until timestamptz
)
returns setof boolean
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    update svc.turn
       set due_at = least(due_at, now()),
           leased_until = null,
           attempts = greatest(attempts - 1, 0)
     where user_id = p_user_id
       and kind = p_kind
       and leased_until = p_leased_until
    returning true
$$;

-- Whether work has waited for more than 15 minutes although no worker has a turn: then no worker runs. A worker turns
-- marked days into turns within minutes, also where these are then put off.
create or replace function svc.is_work_overdue(p_version integer)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.check_version(p_version);
    return not exists (
               select
                 from svc.turn
                where turn.leased_until > now()
           )
           and (
                   exists (
                       select
                         from svc.turn
                        where coalesce(turn.leased_until, turn.due_at) < now() - interval '15 minutes'
                   )
                   or exists (
                       select
                         from activity.rollup_due as marked
                         join identity.user as person using (user_id)
                        where marked.marked_at < now() - interval '15 minutes'
                          and not marked.is_left_raw
                          and not exists (
                                  select
                                    from svc.turn
                                   where turn.user_id = marked.user_id
                                     and turn.kind = 'rollups'
                              )
                   )
               );
end
$$;

-- How much work waits and for how long, by kind, for an operator's metrics: the people with marked days and the age of the
-- oldest mark, for kinds with marks; the turns that wait for a worker, those that a worker has, and for how long the oldest
-- one has waited. A kind of which nothing waits may have no row. It counts people and names none.
create or replace function svc.work_waiting(p_version integer)
returns table (
    kind            text,
    people_marked   bigint,
    oldest_mark_s   double precision,
    turns_due       bigint,
    turns_running   bigint,
    oldest_turn_s   double precision
)
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform svc.check_version(p_version);
    return query
    with mark (kind, user_id, marked_at) as (
        select 'rollups',
               user_id,
               marked_at
          from activity.rollup_due
         where not is_left_raw
         union all
        -- Spans of days are made in turns of the same kind. What failed is dated into the future.
        select 'rollups',
               user_id,
               marked_at
          from activity.attention_due
         where marked_at <= now()
         union all
        select 'summaries',
               user_id,
               marked_at
          from activity.summary_due
         union all
        select 'visits',
               user_id,
               marked_at
          from location.derivation_due
    ),
    marked as (
        select mark.kind,
               count(distinct user_id) as people,
               extract(epoch from now() - min(mark.marked_at))::double precision as oldest_s
          from mark
          join identity.user as person using (user_id)
         group by mark.kind
    ),
    waiting as (
        select turn.kind,
               count(*) filter (where coalesce(turn.leased_until, turn.due_at) <= now()) as due,
               count(*) filter (where turn.leased_until > now()) as running,
               extract(
                   epoch from now() - min(coalesce(turn.leased_until, turn.due_at)) filter (
                       where coalesce(turn.leased_until, turn.due_at) <= now()
                   )
               )::double precision as oldest_s
          from svc.turn
         group by turn.kind
    )
    select kind,
           coalesce(marked.people, 0),
           coalesce(marked.oldest_s, 0),
           coalesce(waiting.due, 0),
           coalesce(waiting.running, 0),
           coalesce(waiting.oldest_s, 0)
      from marked
      full join waiting using (kind);
end
$$;
