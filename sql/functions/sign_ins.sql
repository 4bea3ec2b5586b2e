-- What the authorization server may do for a person depends on the sign-in session: functions about a person's data check
-- it themselves. May run again at any time.

-- Whether a sign-in session belongs to this person and is valid.
create or replace function svc.is_signed_in(p_user_id uuid, p_session_hash bytea)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
begin atomic
    select exists (
               select
                 from identity.session
                where session.user_id = p_user_id
                  and session.session_hash = p_session_hash
                  and session.seen_at > now() - interval '30 days'
           );
end;

-- Begins a change of a person's settings; false: the sign-in session is not valid. A transaction that ends all sign-ins
-- of an account locks its row, so the session is looked up after that row is locked. Changes of one person wait for each
-- other, so that limits on what a person may have are counted one after the other.
create or replace function svc.begin_setting_change(p_user_id uuid, p_session_hash bytea)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from identity.user as person
      where person.user_id = p_user_id
        for no key update;
    return svc.is_signed_in(p_user_id, p_session_hash);
end
$$;

-- Locks the account of a sign-in session, as a transaction that ends all sign-ins of the account does, and returns
-- whether the session is valid and authenticated within the last quarter of an hour.
create or replace function svc.is_freshly_signed_in(p_user_id uuid, p_session_hash bytea)
returns boolean
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from identity.user as person
      where person.user_id = p_user_id
        for no key update;
    return exists (
        select
          from identity.session
         where session.user_id = p_user_id
           and session.session_hash = p_session_hash
           and session.authenticated_at > now() - interval '15 minutes'
           and session.seen_at > now() - interval '30 days'
    );
end
$$;
