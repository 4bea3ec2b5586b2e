-- Which people have marked days, and marking all days of a person. May run again at any time.

-- Up to `p_limit` people with marks that are older than `p_quiet`, or whose spans are to be made, in the order of their
-- ids after `p_after`. The worker learns only these ids, as from svc.people_with_summaries_due. Deleted
-- accounts are left to svc.forget_departed. Raises 57SV1 and 57SV2 where the worker's version does not fit the schema
-- (versions.sql).
-- In PL/pgSQL, because an SQL function locks all its tables before its first statement runs (PostgreSQL 15),
-- and would hold those locks while the check waits for a migration.
drop function if exists svc.people_with_rollups_due(uuid, interval, integer);
create or replace function svc.people_with_rollups_due(
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
    select person.user_id
      from (
               (
                   select due.user_id
                     from activity.rollup_due as due
                    where due.user_id > p_after
                      and due.marked_at <= now() - p_quiet
                      and not due.is_left_raw
                    group by due.user_id
               )
               union
               (
                   select attention.user_id
                     from activity.attention_due as attention
                    where attention.user_id > p_after
                      and attention.marked_at <= now()
               )
           ) as due
      join identity.user as person using (user_id)
     order by person.user_id
     limit p_limit;
end
$$;

-- Marks all days of a person with sessions or rollups, and the days after them, because
-- sessions may continue into these. Days whose sessions have been removed are left out (retention.sql): their rollups
-- stay as they are, with the title rules of that time. A change of title rules calls this in the same transaction, before or after it.
-- It waits for a running job of this person, and keeps others from starting until the transaction ends: a job that
-- uses the previous rules could remove a mark that this statement has seen.
--
-- These marks are dated back: no tracker is about to write more, so the job need not wait until the days are quiet.
--
-- The indexes are searched from one day to the next, so the cost grows with the days and not with the sessions.
create or replace function svc.mark_all_days(p_user_id uuid)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform pg_advisory_xact_lock(hashtextextended('rollups of ' || p_user_id, 0));
    insert into activity.rollup_due (user_id, date, marked_at)
    with recursive measured as (
        select (
                   select min(session.started_at)
                     from activity.app_session as session
                    where session.user_id = p_user_id
               ) as at
         union all
        select (
                   select min(session.started_at)
                     from activity.app_session as session
                    where session.user_id = p_user_id
                      and session.started_at >= date_trunc('day', measured.at, 'UTC') + interval '24 hours'
               )
          from measured
         where measured.at is not null
    ),
    coded as (
        select (
                   select min(session.started_at)
                     from activity.coding_session as session
                    where session.user_id = p_user_id
               ) as at
         union all
        select (
                   select min(session.started_at)
                     from activity.coding_session as session
                    where session.user_id = p_user_id
                      and session.started_at >= date_trunc('day', coded.at, 'UTC') + interval '24 hours'
               )
          from coded
         where coded.at is not null
    ),
    rolled_up as (
        select distinct starts_at as at
          from activity.app_time
         where user_id = p_user_id
           and grain = 3
         union
        select distinct starts_at
          from activity.coding_time
         where user_id = p_user_id
           and grain = 3
    )
    select p_user_id,
           touched.date,
           timestamptz '2000-01-01 00:00Z'
      from (
               select at from measured
                union all
               select at from coded
                union all
               select at from rolled_up
           ) as tracked
     cross join lateral (
               values ((tracked.at at time zone 'UTC')::date),
                      ((tracked.at at time zone 'UTC')::date + 1)
           ) as touched (date)
     where tracked.at is not null
       and touched.date >= coalesce(
               (select removed_before from activity.raw_limit where user_id = p_user_id), '-infinity'
           )
     group by touched.date
     order by touched.date
        on conflict (user_id, date) do update
       set marked_at = excluded.marked_at,
           is_left_raw = false;
end
$$;
