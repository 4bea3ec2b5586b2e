-- The deletion of accounts, and of the data that remains after it. May run again at any time.

-- Deletes an account. Foreign keys delete its sign-in methods and its grants with all tokens; invitations for its
-- address are deleted too. Returns the security event that it records; no row: there is no such account.
-- It checks no session, so only the owner of the database may call it.
create or replace function svc.end_account(p_user_id uuid, p_address text, p_request_id text)
returns table (event text, user_id uuid, client_id text, grant_id uuid)
language sql
set search_path = pg_catalog, pg_temp
as $$
    with ended as (
        delete from identity.user as person
         where person.user_id = p_user_id
        returning person.user_id,
                  person.email
    ),
    uninvited as (
        delete from identity.invitation
         using ended
         where invitation.email = ended.email
    ),
    recorded as (
        insert into identity.departed_user (user_id)
        select ended.user_id
          from ended
    )
    insert into identity.security_event (user_id, event, address, request_id)
    select ended.user_id,
           'account_deleted',
           p_address,
           p_request_id
      from ended
    returning security_event.event,
              security_event.user_id,
              security_event.client_id,
              security_event.grant_id;
$$;

-- Deletes the account of a sign-in session that is fresh. Returns the security event that it records; no row: the
-- session belongs to another account, has ended, or authenticated more than a quarter of an hour ago.
-- The authorization server may call this but may not delete accounts itself. The row of the account is locked at once as
-- its deletion locks it: the lock that the check of the session takes is weaker.
create or replace function svc.delete_account(
    p_user_id      uuid,
    p_session_hash bytea,
    p_address      text,
    p_request_id   text
)
returns table (event text, user_id uuid, client_id text, grant_id uuid)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform from identity.user as person
      where person.user_id = p_user_id
        for update;
    if svc.is_freshly_signed_in(p_user_id, p_session_hash) then
        return query select * from svc.end_account(p_user_id, p_address, p_request_id);
    end if;
end
$$;

-- References that no foreign key checks, because the check would take too long for tables with millions of new rows: the
-- table, the one that it refers to, and the column in both.
create or replace function svc.unchecked_references()
returns table (referring regclass, referred regclass, id_column name)
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    values ('health.sample'::regclass, 'health.metric'::regclass, 'metric_type'::name),
           ('health.sample', 'health.source', 'source_id'),
           ('health.heart_rate', 'health.source', 'source_id'),
           ('location.point', 'location.device', 'device_id');
$$;

-- All tables with data of people, in the order in which their rows can be deleted: a table that refers to another
-- comes before it. Tables of identity and oauth refer to the account itself, and are empty when it is deleted. A
-- partitioned table has no rows; its partitions are listed.
create or replace function svc.tables_of_people()
returns setof regclass
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    with recursive reference as (
        select conrelid as referring,
               confrelid as referred
          from pg_constraint
         where contype = 'f'
           and confrelid <> conrelid
         union all
        select unchecked.referring,
               unchecked.referred
          from svc.unchecked_references() as unchecked
    ),
    held as (
        select pg_class.oid
          from pg_class
          join pg_namespace on pg_namespace.oid = pg_class.relnamespace
          join pg_attribute on pg_attribute.attrelid = pg_class.oid
         where pg_class.relkind = 'r'
           and pg_attribute.attname = 'user_id'
           and not pg_attribute.attisdropped
           and pg_namespace.nspname not in ('identity', 'oauth', 'information_schema')
           and pg_namespace.nspname not like 'pg\_%'
    ),
    placed as (
        select held.oid,
               0 as place
          from held
         union all
        select reference.referred,
               placed.place + 1
          from placed
          join reference on reference.referring = placed.oid
    ) cycle oid set is_seen using path
    select placed.oid::regclass
      from placed
      join held using (oid)
     where not placed.is_seen
     group by placed.oid
     order by max(placed.place),
              placed.oid;
$$;

-- Removes at most `p_batch` rows of people whose account is deleted, and returns how many. A person without any rows
-- is removed from the list a day after the deletion: by then every transaction that could have begun before it is
-- over, and none can write another row.
-- The indexes of these tables begin with the user. A scan of the whole table, which the planner may prefer for a
-- person who has most of its rows, would start from the beginning for each batch.
create or replace function svc.forget_departed(p_batch integer)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    person  identity.departed_user;
    place   regclass;
    removed integer := 0;
    gone    integer;
begin
    for person in
        select *
          from identity.departed_user
         order by deleted_at
           for update skip locked
    loop
        for place in select svc.tables_of_people() loop
            execute format(
                'delete from %1$s '
                'where user_id = $1 '
                'and ctid = any (array(select ctid from %1$s where user_id = $1 limit $2))',
                place
            ) using person.user_id, p_batch - removed;
            get diagnostics gone = row_count;
            removed := removed + gone;
            if removed >= p_batch then
                return removed;
            end if;
        end loop;
        delete from identity.departed_user
         where departed_user.user_id = person.user_id
           and departed_user.deleted_at < now() - interval '1 day';
    end loop;
    return removed;
end
$$;
