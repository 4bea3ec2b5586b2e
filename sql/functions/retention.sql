-- The removal of old rows that the servers' own roles may not delete. May run again at any time.

-- Removes security events that are older than 400 days, or than 30 for failed sign-ins to no account, which any
-- stranger can cause; at most `p_batch` of them. Returns how many.
-- The authorization server may call this but cannot delete the rows itself: so an attacker who controls it cannot
-- remove the events about the attack.
create or replace function svc.forget_security_events(p_batch integer)
returns integer
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
    with old as (
        select user_id,
               event_id
          from identity.security_event
         where occurred_at < now() - interval '400 days'
         order by occurred_at
         limit p_batch
           for update skip locked
    ),
    forlorn as (
        select user_id,
               event_id
          from identity.security_event
         where user_id = '00000000-0000-0000-0000-000000000000'
           and occurred_at < now() - interval '30 days'
         order by occurred_at
         limit p_batch
           for update skip locked
    ),
    due as (
        select user_id,
               event_id
          from old
         union
        select user_id,
               event_id
          from forlorn
         limit p_batch
    ),
    forgotten as (
        delete from identity.security_event
         using due
         where security_event.user_id = due.user_id
           and security_event.event_id = due.event_id
        returning security_event.event_id
    )
    select count(*)::integer
      from forgotten;
$$;

-- Removes beats that are older than 30 days, at most `p_batch` of them, and returns how many. The
-- table's only index begins with person and connection, so each connection is searched by itself.
create or replace function svc.forget_beats(p_batch integer)
returns integer
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    person  uuid    := '00000000-0000-0000-0000-000000000000';
    brought uuid    := '00000000-0000-0000-0000-000000000000';
    removed integer := 0;
    gone    integer;
begin
    loop
        select beat.user_id,
               beat.import_id
          into person,
               brought
          from activity.beat
         where (beat.user_id, beat.import_id) > (person, brought)
         order by beat.user_id,
                  beat.import_id
         limit 1;
        if not found then
            return removed;
        end if;
        delete from activity.beat
         where ctid = any (
                   array(
                       select beat.ctid
                         from activity.beat
                        where beat.user_id = person
                          and beat.import_id = brought
                          and beat.beat_at < now() - interval '30 days'
                        order by beat.beat_at
                        limit p_batch - removed
                          for update skip locked
                   )
               );
        get diagnostics gone = row_count;
        removed := removed + gone;
        exit when removed >= p_batch;
    end loop;
    return removed;
end
$$;

-- Removes the digests of messages about health and the stages of sleep that are older than 30 days, at most `p_batch` of
-- them, and returns how many. A message removes those of its own person too (health_messages.sql); these are of people
-- whose phones send no more.
create or replace function svc.forget_health(p_batch integer)
returns integer
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    removed integer;
    gone    integer;
begin
    delete from health.message
     where ctid = any (
               array(
                   select message.ctid
                     from health.message
                    where message.received_at < now() - interval '30 days'
                    order by message.received_at
                    limit p_batch
                      for update skip locked
               )
           );
    get diagnostics removed = row_count;
    delete from health.sleep_stage
     where ctid = any (
               array(
                   select sleep_stage.ctid
                     from health.sleep_stage
                    where sleep_stage.received_at < now() - interval '30 days'
                    order by sleep_stage.received_at
                    limit p_batch - removed
                      for update skip locked
               )
           );
    get diagnostics gone = row_count;
    return removed + gone;
end
$$;

-- The first day of the month, in UTC, before which a person's sessions go if they are kept for so many years: the month
-- in which the same day so many years ago began where the person lives. So each session is kept for these years, and up
-- to a month more. East of UTC a month begins there before it begins in UTC, hence the way through the instant.
drop function if exists svc.raw_limit_day(text, integer);
create or replace function svc.raw_limit_day(p_tz text, p_years integer, p_now timestamptz default now())
returns date
language sql
stable
set search_path = pg_catalog, pg_temp
return (
    date_trunc(
        'month',
        (date_trunc('day', p_now at time zone p_tz) - p_years * interval '1 year') at time zone p_tz,
        'UTC'
    ) at time zone 'UTC'
)::date;

-- Up to `p_limit` people with sessions that are older than so many years and have not been removed, or with closed
-- months that are kept with so many years, in the order of their ids after `p_after`. Without years, all is kept. Raises
-- 57SV1 and 57SV2 where the worker's version does not fit the schema (versions.sql).
create or replace function svc.people_with_old_sessions(
    p_after   uuid,
    p_years   integer,
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
      from identity.user as person
      left join activity.raw_limit using (user_id)
     cross join lateral (
               select day,
                      day::timestamp at time zone 'UTC' as at
                 from svc.raw_limit_day(person.timezone, p_years) as day
               offset 0
           ) as due
     where person.user_id > p_after
       and (
               raw_limit.closed_before > coalesce(greatest(due.day, raw_limit.removed_before), '-infinity')
               or due.day is not null
                  and (raw_limit.removed_before is null or raw_limit.removed_before < due.day)
                  and least(
                          (
                              select min(started_at)
                                from activity.app_session as session
                               where session.user_id = person.user_id
                          ),
                          (
                              select min(started_at)
                                from activity.coding_session as session
                               where session.user_id = person.user_id
                          )
                      ) < due.at
           )
     order by person.user_id
     limit p_limit;
end
$$;

-- Whether rollups or summaries of days before one are still to be made.
create or replace function svc.has_marks_before(p_user_id uuid, p_before date)
returns boolean
language sql
volatile
set search_path = pg_catalog, pg_temp
as $$
    select exists (select from activity.rollup_due where user_id = p_user_id and date < p_before)
        or exists (select from activity.summary_due where user_id = p_user_id and date < p_before);
$$;

-- Removes the oldest month of a person's sessions, if it is older than so many years, and returns what it has done:
--
--     'opened'    months were closed and not removed, and are kept with so many years, or without a number: sessions of
--                 them are accepted again
--     'closed'    from now on no sessions are accepted that begin before the limit; nothing is removed yet, because a
--                 batch that was being written may still add some
--     'waiting'   for that, or for the rollups and summaries of the month, which are made of these sessions
--     'removed'   a month is removed, and there may be more
--     'done'      nothing is left to remove
--
-- It is one transaction, so a worker that is killed has removed nothing. Sessions that reach into the next month stay
-- until that one goes. The lock keeps rollups from being made meanwhile.
-- The worker may call this but cannot delete sessions itself, and no session of less than a year is removed; none at all
-- without a number of years.
create or replace function svc.remove_old_sessions(p_user_id uuid, p_years integer, p_version integer default null)
returns table (state text, app_sessions integer, coding_sessions integer, before date)
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    due      date;
    known    activity.raw_limit;
    first_at timestamptz;
    upto     timestamptz;
begin
    perform svc.check_version(p_version);
    perform pg_advisory_xact_lock(hashtextextended('rollups of ' || p_user_id, 0));
    app_sessions := 0;
    coding_sessions := 0;
    select svc.raw_limit_day(person.timezone, greatest(p_years, 1))
      into due
      from identity.user as person
     where person.user_id = p_user_id
       and p_years is not null;
    update activity.raw_limit as stored
       set closed_before = greatest(due, stored.removed_before)
     where stored.user_id = p_user_id
       and stored.closed_before > greatest(due, stored.removed_before)
    returning stored.closed_before
      into before;
    if due is null then
        delete from activity.raw_limit as stored
         where stored.user_id = p_user_id
           and stored.removed_before is null
        returning 'opened'
          into state;
    end if;
    if before is not null or state is not null then
        state := 'opened';
        return next;
        return;
    end if;
    select least(
               (select min(session.started_at) from activity.app_session as session where session.user_id = p_user_id),
               (select min(session.started_at) from activity.coding_session as session where session.user_id = p_user_id)
           )
      into first_at;
    if due is null or first_at is null or first_at >= due::timestamp at time zone 'UTC' then
        state := 'done';
        return next;
        return;
    end if;
    select *
      into known
      from activity.raw_limit as stored
     where stored.user_id = p_user_id
       for update;
    if known.closed_before is null or known.closed_before < due then
        insert into activity.raw_limit (user_id, closed_before)
        values (p_user_id, due)
            on conflict (user_id) do update
           set closed_before = excluded.closed_before,
               closed_at = now();
        state := 'closed';
        before := due;
        return next;
        return;
    end if;
    -- A month in which only a session remains that reaches into the next one is over.
    before := least(
        due,
        greatest(
            (date_trunc('month', first_at, 'UTC') at time zone 'UTC' + interval '1 month')::date,
            (known.removed_before + interval '1 month')::date
        )
    );
    if before <= known.removed_before then
        state := 'done';
        return next;
        return;
    end if;
    upto := before::timestamp at time zone 'UTC';
    if known.closed_at > now() - interval '10 minutes' or svc.has_marks_before(p_user_id, before) then
        state := 'waiting';
        return next;
        return;
    end if;
    with app as (
        delete from activity.app_session as session
         where session.user_id = p_user_id
           and session.started_at < upto
           and session.ended_at < upto
        returning session.started_at,
                  session.ended_at,
                  session.idle
    ),
    coding as (
        delete from activity.coding_session as session
         where session.user_id = p_user_id
           and session.started_at < upto
           and session.ended_at < upto
        returning session.started_at,
                  session.ended_at
    ),
    removed as (
        select true as is_app,
               started_at,
               ended_at,
               idle
          from app
         union all
        select false,
               started_at,
               ended_at,
               false
          from coding
    ),
    placed as (
        select *,
               tstzrange(
                   date_bin('15 minutes', started_at, '2000-01-01 00:00:00+00'),
                   date_bin(
                       '15 minutes',
                       greatest(ended_at - interval '1 millisecond', started_at),
                       '2000-01-01 00:00:00+00'
                   ) + interval '15 minutes'
               ) as quarters
          from removed
    ),
    remembered as (
        insert into activity.removed_day as day (
            user_id,
            date,
            app_sessions,
            coding_sessions,
            first_app_at,
            last_app_at,
            first_coding_at,
            last_coding_at,
            reported,
            active
        )
        select p_user_id,
               (started_at at time zone 'UTC')::date,
               count(*) filter (where is_app),
               count(*) filter (where not is_app),
               min(started_at) filter (where is_app),
               max(started_at) filter (where is_app),
               min(started_at) filter (where not is_app),
               max(started_at) filter (where not is_app),
               range_agg(quarters),
               coalesce(range_agg(quarters) filter (where not idle), '{}')
          from placed
         group by 2
         order by 2
            on conflict (user_id, date) do update
           set app_sessions = day.app_sessions + excluded.app_sessions,
               coding_sessions = day.coding_sessions + excluded.coding_sessions,
               first_app_at = least(day.first_app_at, excluded.first_app_at),
               last_app_at = greatest(day.last_app_at, excluded.last_app_at),
               first_coding_at = least(day.first_coding_at, excluded.first_coding_at),
               last_coding_at = greatest(day.last_coding_at, excluded.last_coding_at),
               reported = day.reported + excluded.reported,
               active = day.active + excluded.active
    )
    select count(*) filter (where is_app),
           count(*) filter (where not is_app)
      into app_sessions,
           coding_sessions
      from removed;
    -- An import that has made a session longer or removed some, and was not committed when the marks were looked at, has
    -- kept the statement above waiting, and its marks are visible now.
    if svc.has_marks_before(p_user_id, before) then
        raise exception using
            errcode = 'serialization_failure',
            message = 'sessions of the month were changed meanwhile';
    end if;
    update activity.raw_limit as stored
       set removed_before = before
     where stored.user_id = p_user_id;
    state := 'removed';
    return next;
end
$$;
