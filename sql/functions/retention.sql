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
