-- Sign-in through the provider. May run again at any time.

-- Makes statements about one session at the provider wait for each other until the transaction ends: a sign-in with it,
-- and a logout that ends it. Null locks nothing.
-- Keep it a statement of its own, before those: only the next statement sees what was committed during the wait.
create or replace function svc.lock_provider_session(p_provider_session_hash bytea)
returns void
language sql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
    select pg_advisory_xact_lock(
               hashtextextended('svc.provider_session ' || encode(p_provider_session_hash, 'hex'), 0)
           )
$$;
