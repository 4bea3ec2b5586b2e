-- What is forgotten, and when, where the servers' own roles may not delete. May run again at any time.

-- Removes security events that are older than 400 days, at most `p_batch` of them, and returns how many.
-- The authorization server may call this and not delete by itself: so whoever breaks into it cannot wipe
-- out what it noted of them.
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
    forgotten as (
        delete from identity.security_event
         using old
         where security_event.user_id = old.user_id
           and security_event.event_id = old.event_id
        returning security_event.event_id
    )
    select count(*)::integer
      from forgotten;
$$;
