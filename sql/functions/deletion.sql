-- How accounts end, and how what they leave behind is removed. May run again at any time.

-- Ends an account: with its row go, by their foreign keys, everything that its owner signs in with and every
-- grant with all its tokens; so do invitations for their address. Returns what happened, as it was noted; no row: there is no such account.
-- It asks nobody for leave, so it is the owner's alone.
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
    departed as (
        insert into identity.departed_user (user_id)
        select ended.user_id
          from ended
    )
    insert into identity.security_event as noted (user_id, event, address, request_id)
    select ended.user_id,
           'account_deleted',
           p_address,
           p_request_id
      from ended
    returning noted.event,
              noted.user_id,
              noted.client_id,
              noted.grant_id;
$$;

-- Ends an account for somebody who is signed in to it and proved a moment ago who they are. Returns what
-- happened; no row: the session is not theirs, has ended, or its proof is older than a quarter of an hour.
-- The authorization server may call this and delete no account by itself. Whoever ends all sign-ins of an
-- account holds its row meanwhile; so is it held here, and the session looked up afterwards.
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
    perform from identity.session
      where session.user_id = p_user_id
        and session.session_hash = p_session_hash
        and session.authenticated_at > now() - interval '15 minutes'
        and session.seen_at > now() - interval '30 days';
    if found then
        return query select * from svc.end_account(p_user_id, p_address, p_request_id);
    end if;
end
$$;

-- The tables that hold data of people, whatever there are, in the order in which their rows can go: one
-- that refers to another comes before it. Tables of identity and oauth refer to the account itself, and are
-- done when it is gone. A partitioned table has no rows; its partitions are listed.
create or replace function svc.tables_of_people()
returns setof regclass
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    with recursive held as (
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
        select pg_constraint.confrelid,
               placed.place + 1
          from placed
          join pg_constraint on pg_constraint.conrelid = placed.oid
         where pg_constraint.contype = 'f'
           and pg_constraint.confrelid <> pg_constraint.conrelid
    ) cycle oid set is_seen using path
    select placed.oid::regclass
      from placed
      join held using (oid)
     where not placed.is_seen
     group by placed.oid
     order by max(placed.place),
              placed.oid;
$$;

-- Removes at most `p_batch` rows of people whose account is gone, and returns how many. Whoever left more
-- than a day ago and has nothing left is forgotten: by then every transaction that could have begun before
-- the account's end is over, and nothing comes any more.
-- The indexes of these tables begin with the user. A look at a whole table, which the planner may prefer
-- for somebody who has most of it, would begin anew with each batch.
create or replace function svc.forget_departed(p_batch integer)
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    departed identity.departed_user;
    place    regclass;
    removed  integer := 0;
    gone     integer;
begin
    for departed in
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
            ) using departed.user_id, p_batch - removed;
            get diagnostics gone = row_count;
            removed := removed + gone;
            if removed >= p_batch then
                return removed;
            end if;
        end loop;
        delete from identity.departed_user
         where departed_user.user_id = departed.user_id
           and departed_user.deleted_at < now() - interval '1 day';
    end loop;
    return removed;
end
$$;
