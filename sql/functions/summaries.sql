-- Whose days have to be summed up. May run again at any time.

-- Some of the people who have marked days, or provisional summaries whose time has come, in the order of
-- their ids after `p_after`. The worker learns no more of them than this, and for one at a time it then sees
-- what row-level security shows to a job (policies.sql). Raises 57SV1 and 57SV2 where the worker's version does
-- not fit the schema (versions.sql).
-- In PL/pgSQL, because an SQL function locks all its tables before its first statement runs (PostgreSQL 15),
-- and would hold those locks while the check waits for a migration.
drop function if exists svc.people_with_summaries_due(uuid, integer);
create or replace function svc.people_with_summaries_due(
    p_after   uuid,
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
    select summary_due.user_id
      from activity.summary_due
     where summary_due.user_id > p_after
     union
    select daily_summary.user_id
      from activity.daily_summary
     where daily_summary.user_id > p_after
       and daily_summary.status = 'provisional'
       and daily_summary.final_at <= now()
     order by user_id
     limit p_limit;
end
$$;
