-- name: session
-- The person who is signed in with a session, and marks the session as used. No row: nobody is signed in.
-- `seen_at` is updated at most once an hour, so that most page views write nothing.
with used as (
    update identity.session
       set seen_at = now()
     where user_id = %(user_id)s
       and session_hash = %(session_hash)s
       and seen_at > now() - %(idle_lifetime)s::interval
       and seen_at < now() - interval '1 hour'
    returning user_id
)
select person.user_id,
       person.email,
       person.display_name,
       person.timezone,
       person.is_admin,
       session.authenticated_at > now() - %(fresh_for)s::interval as is_fresh,
       exists (select from used) as was_refreshed,
       session.previous_hash
  from identity.session
  join identity.user as person using (user_id)
 where session.user_id = %(user_id)s
   and session.session_hash = %(session_hash)s
   and session.seen_at > now() - %(idle_lifetime)s::interval

-- fragment: opened_session
-- Opens a session for the person in `admitted` and closes the browser's previous one. Pending authorization
-- requests of the browser, and sign-ins at the provider that another tab has started, move to the new
-- session. If `admitted` is empty, nothing changes. A person has at most `most_sessions`: those that were not
-- used for longest end.
-- needs: admitted (user_id)
-- gives: opened_session (user_id)
-- gives: closed_session (user_id)
-- gives: ended_session (user_id, was_live)
opened_session as (
    insert into identity.session
           (
               user_id,
               session_hash,
               previous_hash,
               authenticated_at,
               user_agent,
               address,
               provider_session_hash
           )
    select user_id,
           %(session_hash)s,
           case when user_id = %(old_user_id)s then %(old_session_hash)s::bytea end,
           least(now(), %(authenticated_at)s::timestamptz),
           %(user_agent)s,
           %(address)s,
           -- Confirming the sign-in in another way does not separate it from the session at the provider.
           coalesce(
               %(provider_session_hash)s::bytea,
               (
                   select session.provider_session_hash
                     from identity.session
                    where session.user_id = admitted.user_id
                      and session.session_hash = %(old_session_hash)s
               )
           )
      from admitted
    returning user_id
),
closed_session as (
    delete from identity.session
     where user_id = %(old_user_id)s
       and session_hash = %(old_session_hash)s
       and exists (select from opened_session)
    returning user_id
),
surplus as (
    -- The new session is not among these rows yet. Concurrent statements lock them in the same order.
    select user_id,
           session_hash
      from identity.session
     where (user_id, session_hash) in (
               select session.user_id,
                      session.session_hash
                 from identity.session
                 join admitted using (user_id)
                where session.session_hash <> %(old_session_hash)s
                order by session.seen_at desc,
                         session.created_at desc
               offset %(most_sessions)s - 1
           )
     order by session_hash
       for update
),
ended_session as (
    delete from identity.session
     using surplus
     where session.user_id = surplus.user_id
       and session.session_hash = surplus.session_hash
    returning session.user_id,
              session.seen_at > now() - %(idle_lifetime)s::interval as was_live
),
moved_request as (
    update oauth.authorization_request
       set session_hash = %(session_hash)s
     where session_hash = %(old_session_hash)s
       and exists (select from opened_session)
),
moved_provider_sign_in as (
    update identity.provider_sign_in
       set session_hash = %(session_hash)s
     where session_hash = %(old_session_hash)s
       and user_id is null
       and invitation_hash is null
       and exists (select from opened_session)
),

-- fragment: moved_grants
-- Gives the new session the grants of the previous one if it is the same person's, who has confirmed the sign-in. The
-- foreign key is checked at the end of the statement, so these grants are not deleted with the previous session. That
-- session is locked first, as in all statements that end one.
-- needs: opened_session (user_id)
-- needs: closed_session (user_id)
moved_grant as (
    update oauth.grant
       set session_hash = %(session_hash)s
      from closed_session
      join opened_session using (user_id)
     where oauth.grant.user_id = closed_session.user_id
       and oauth.grant.session_hash = %(old_session_hash)s
),

-- name: lock_provider_session
-- Runs before `sign_in` with a session at the provider, in the same transaction: a logout that ends that session is
-- either committed, or waits and then sees the new sign-in session.
select svc.lock_provider_session(%(provider_session_hash)s)

-- name: sign_in
-- Opens a session of a person in one browser. No row: all sessions of the person were ended since they
-- authenticated, or the session at the provider with which they did, so this one must not open either.
with admitted as (
    select user_id
      from identity.user
     where user_id = %(user_id)s
       and signed_out_at is not distinct from %(signed_out_at)s::timestamptz
       and not exists (
               select from identity.provider_logout
                where provider_session_hash = %(provider_session_hash)s
           )
       for share
),
--include opened_session
--include moved_grants
new_event as (
    select 'signed_in' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from opened_session
     union all
    select 'signed_out',
           user_id,
           null,
           null
      from ended_session
     where was_live
),
--include recorded
--include recorded_events

-- name: sign_out
-- Ends the session of one browser. Its pending authorization requests move to the next session.
with closed_session as (
    delete from identity.session
     where user_id = %(old_user_id)s
       and session_hash = %(old_session_hash)s
    returning user_id
),
moved_request as (
    update oauth.authorization_request
       set session_hash = %(session_hash)s
     where session_hash = %(old_session_hash)s
),
new_event as (
    select 'signed_out' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from closed_session
),
--include recorded
--include recorded_events

-- name: sign_ins
-- The live sessions of a person, oldest first.
select session_hash,
       created_at,
       seen_at,
       address,
       user_agent
  from identity.session
 where user_id = %(user_id)s
   and seen_at > now() - %(idle_lifetime)s::interval
 order by created_at,
          session_hash

-- name: lock_user
-- Locks the account before a statement that ends all its sessions, in the same transaction. It waits for
-- sign-ins that are just being completed, so that the next statement sees their sessions.
select user_id
  from identity.user
 where user_id = %(user_id)s
   for no key update

-- fragment: signed_out
signed_out as (
    update identity.user
       set signed_out_at = now()
     where user_id = %(user_id)s
),

-- name: end_sign_in
-- Ends one session of a person. No row: the session is not this person's or has ended.
with closed_session as (
    delete from identity.session
     where user_id = %(user_id)s
       and session_hash = %(session_hash)s
       and seen_at > now() - %(idle_lifetime)s::interval
    returning user_id
),
new_event as (
    select 'signed_out' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from closed_session
),
--include recorded
--include recorded_events

-- name: sign_out_everywhere
-- Ends all sessions of a person, also those that are just being opened, except `kept_hash` if not null.
with closed_session as (
    delete from identity.session
     where user_id = %(user_id)s
       and seen_at > now() - %(idle_lifetime)s::interval
       and session_hash is distinct from %(kept_hash)s::bytea
    returning user_id
),
--include signed_out
new_event as (
    select 'signed_out' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from closed_session
),
--include recorded
--include recorded_events
