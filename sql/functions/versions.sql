-- The check whether the code of a server fits the schema. May run again at any time.

-- Raises 57SV1 if the code is older than the schema allows, which includes all code that sends no version, and
-- 57SV2 if the schema is older than the code. Every transaction that uses user data calls this first and
-- keeps its lock until it ends. A migration that excludes older code locks the table exclusively, so such
-- transactions have ended before it changes anything.
-- Keep it volatile, although it only reads: a stable function reads with its caller's snapshot, which was taken
-- before the wait for the migration's lock, and would accept code that the migration has just excluded. A volatile
-- one takes a new snapshot after the lock has been granted.
create or replace function svc.check_version(p_version integer)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    present svc.schema_version;
begin
    select * into strict present from svc.schema_version;
    if p_version is null or p_version < present.oldest_code then
        raise exception using
            errcode = '57SV1',
            message = format(
                'the server has version %s, and the schema can be used from version %s on',
                coalesce(p_version::text, 'none'),
                present.oldest_code
            );
    elsif p_version > present.version then
        raise exception using
            errcode = '57SV2',
            message = format(
                'the schema has version %s, and the server needs version %s',
                present.version,
                p_version
            );
    end if;
end
$$;

drop function if exists svc.refuse_all();
