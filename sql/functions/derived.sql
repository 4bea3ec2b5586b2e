-- Which people have days to derive again. May run again at any time.

-- Up to `p_limit` people with marks that are older than `p_quiet`, in the order of their ids after `p_after`. The worker
-- learns only these ids, as from svc.people_with_rollups_due. Raises 57SV1 and 57SV2 if the worker's version does not fit
-- the schema (versions.sql).
-- In PL/pgSQL, because an SQL function locks all its tables before its first statement runs (PostgreSQL 15),
-- and would hold those locks while the check waits for a migration.
create or replace function svc.people_with_derivation_due(
    p_after   uuid,
    p_quiet   interval,
    p_limit   integer,
    p_version integer default null
)
returns setof uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.check_version(p_version);
    return query
    select due.user_id
      from location.derivation_due as due
      join identity.user as person using (user_id)
     where due.user_id > p_after
       and due.marked_at <= now() - p_quiet
     group by due.user_id
     order by due.user_id
     limit p_limit;
end
$$;
