-- The people and the days with summaries to write. May run again at any time.

-- Up to `p_limit` people with marked days, or with provisional summaries that must become final, in the order of
-- their ids after `p_after`. A day that was marked within `p_quiet`, because a tracker is writing to it, counts only if
-- one of its local days got no summary within `p_patience`; without `p_quiet`, all marks count. The worker learns only these ids, and then sees of one person at a time the rows that
-- row-level security shows to a job (policies.sql). Raises 57SV1 and 57SV2 if the worker's version does not fit the
-- schema (versions.sql).
-- In PL/pgSQL, because an SQL function locks all its tables before its first statement runs (PostgreSQL 15),
-- and would hold those locks while the check waits for a migration.
drop function if exists svc.people_with_summaries_due(uuid, integer);
drop function if exists svc.people_with_summaries_due(uuid, integer, integer);
create or replace function svc.people_with_summaries_due(
    p_after    uuid,
    p_limit    integer,
    p_version  integer  default null,
    p_quiet    interval default null,
    p_patience interval default null
)
returns setof uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.check_version(p_version);
    return query
    (
        select due.user_id
          from activity.summary_due as due
          left join identity.user as person using (user_id)
         cross join lateral (
                   select due.date::timestamp at time zone 'UTC' as starts_at,
                          (due.date::timestamp + interval '23:59:59') at time zone 'UTC' as ends_at
               ) as day
         where due.user_id > p_after
           and (
                   p_quiet is null
                   or due.marked_at <= now() - p_quiet
                   or not exists (
                          select
                            from activity.daily_summary as summary
                           where summary.user_id = due.user_id
                             and summary.date >= (day.starts_at at time zone person.timezone)::date
                             and summary.date <= (day.ends_at at time zone person.timezone)::date
                          having min(summary.generated_at) > now() - p_patience
                      )
               )
         group by due.user_id
         order by due.user_id
         limit p_limit
    )
     union
    (
        select summary.user_id
          from activity.daily_summary as summary
         where summary.user_id > p_after
           and summary.status = 'provisional'
           and summary.final_at <= now()
         group by summary.user_id
         order by summary.user_id
         limit p_limit
    )
     order by user_id
     limit p_limit;
end
$$;

-- The local days from `p_from` to `p_to` whose stored summaries may be out of date or missing, because the job
-- has not yet summed up what was marked. They are all days that overlap marked days of UTC. Where activity continues
-- across an end of them, a streak or a switch may cross it, so the day beyond is added, up to a week,
-- as the job does (`affected_days` in resourceserver/timeline/summaries.sql). A few days too many do no harm.
create or replace function svc.pending_days(p_user_id uuid, p_from date, p_to date)
returns setof date
language sql
stable
set search_path = pg_catalog, pg_temp
begin atomic
    with recursive marked as (
        select due.date,
               due.date - row_number() over (order by due.date)::integer as stretch
          from activity.summary_due as due
         where due.user_id = p_user_id
           and due.date between p_from - 9 and p_to + 9
    ),
    -- One end of a stretch of marked days, and the direction in which it moves.
    reached as (
        select min(date)::timestamp at time zone 'UTC' as at,
               interval '-24 hours' as step,
               0 as steps,
               stretch
          from marked
         group by stretch
         union all
        select (max(date) + 1)::timestamp at time zone 'UTC',
               interval '24 hours',
               0,
               stretch
          from marked
         group by stretch
         union all
        select reached.at + reached.step,
               reached.step,
               reached.steps + 1,
               reached.stretch
          from (
                   -- Beside row-level security, the planner uses no index for a comparison with a computed value;
                   -- `offset` makes columns of them.
                   select at,
                          step,
                          steps,
                          stretch,
                          at - interval '24 hours 5 minutes' as first_before,
                          at - interval '5 minutes' as ends_before,
                          at - interval '24 hours' as first_after,
                          at + interval '5 minutes' as last_after
                     from reached
                    where steps < 7
                   offset 0
               ) as reached
         cross join lateral (
                   select
                     from activity.app_session as before
                    where before.user_id = p_user_id
                      and before.started_at >= reached.first_before
                      and before.started_at < reached.at
                      and before.ended_at >= reached.ends_before
                      and before.ended_at > before.started_at
                      and not before.idle
                    order by before.started_at desc
                    limit 1
               ) as active_before
         cross join lateral (
                   select
                     from activity.app_session as after
                    where after.user_id = p_user_id
                      and after.started_at >= reached.first_after
                      and after.started_at <= reached.last_after
                      and after.ended_at > reached.at
                      and after.ended_at > after.started_at
                      and not after.idle
                    order by after.started_at desc
                    limit 1
               ) as active_after
    ),
    extent as (
        select min(at) as starts_at,
               max(at) as ends_at
          from reached
         group by stretch
    )
    select distinct day::date
      from extent
     cross join (select timezone as tz from identity.user where user_id = p_user_id) as person
     cross join lateral generate_series(
               (extent.starts_at at time zone person.tz)::date::timestamp,
               ((extent.ends_at - interval '1 millisecond') at time zone person.tz)::date::timestamp,
               interval '1 day'
           ) as day
     where day::date between p_from and p_to;
end;

-- Marks all days of a person that have a summary or are marked, because something has changed all of them,
-- and `p_around` days on either side. A day that the job may be working on gets another mark.
create or replace function svc.mark_all_summaries(p_user_id uuid, p_around integer default 0)
returns void
language sql
security definer
set search_path = pg_catalog, pg_temp
begin atomic
    insert into activity.summary_due (user_id, date)
    select p_user_id,
           known.date
      from (
               select distinct marked.date + around as date
                 from (
                          select summary.date
                            from activity.daily_summary as summary
                           where summary.user_id = p_user_id
                           union
                          select due.date
                            from activity.summary_due as due
                           where due.user_id = p_user_id
                      ) as marked
                cross join generate_series(-p_around, p_around) as around
           ) as known
     where known.date between '0001-01-01' and '9999-12-31'
     order by known.date
        on conflict (user_id, date) do update
       set marked_at = greatest(now(), summary_due.marked_at + interval '1 microsecond');
end;
