-- Passkeys: each addition, use and removal is one statement that also records its security event.

-- name: passkeys
-- The passkeys of one person, oldest first.
select passkey_id,
       credential_id,
       transports,
       name,
       created_at,
       last_used_at
  from identity.passkey
 where user_id = %(user_id)s
 order by created_at,
          passkey_id

-- name: passkey
-- The public key to verify a response with, and when all sessions of the owner were last ended together.
select passkey.user_id,
       passkey.public_key,
       person.signed_out_at
  from identity.passkey
  join identity.user as person using (user_id)
 where passkey.user_id = %(user_id)s
   and passkey.credential_id = %(credential_id)s

-- fragment: spent_challenge
-- Spends the challenge. No row: it was spent before.
-- needs: entitled (user_id)
-- gives: spent_challenge (user_id)
spent_challenge as (
    insert into identity.spent_challenge (user_id, challenge_hash, expires_at)
    select user_id,
           %(challenge_hash)s,
           %(expires_at)s
      from entitled
        on conflict do nothing
    returning user_id
),

-- name: sign_in_with_passkey
-- Challenge ─► spent, and a session in place of the browser's present one. The signature counter of an
-- authenticator only increases. One that does not increase may be a copy: it does not sign in, and a
-- passkey_refused event is recorded. No row: the challenge was spent before, the passkey was removed, or
-- all sessions were ended since it was read.
with entitled as (
    select person.user_id
      from identity.user as person
      join identity.passkey using (user_id)
     where person.user_id = %(user_id)s
       and passkey.credential_id = %(credential_id)s
       and person.signed_out_at is not distinct from %(signed_out_at)s::timestamptz
       for share of person
       for no key update of passkey
),
--include spent_challenge
admitted as (
    update identity.passkey
       set sign_count = %(sign_count)s,
           last_used_at = now()
      from spent_challenge
     where passkey.user_id = spent_challenge.user_id
       and passkey.credential_id = %(credential_id)s
       and (passkey.sign_count < %(sign_count)s or (passkey.sign_count = 0 and %(sign_count)s = 0))
    returning passkey.user_id
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
     union all
    select 'passkey_refused',
           user_id,
           null,
           null
      from spent_challenge
     where not exists (select from admitted)
),
--include recorded
--include recorded_events

-- name: add_passkey
-- Adds a passkey of a signed-in person. No row: the challenge was spent before, the passkey exists, the
-- person has the most passkeys that are allowed, or the session was ended meanwhile.
with entitled as (
    select user_id
      from identity.session
     where user_id = %(user_id)s
       and session_hash = %(session_hash)s
       and (select count(*) from identity.passkey where user_id = %(user_id)s) < %(most)s
),
--include spent_challenge
added as (
    insert into identity.passkey (user_id, credential_id, public_key, sign_count, transports, name)
    select user_id,
           %(credential_id)s,
           %(public_key)s,
           %(sign_count)s,
           %(transports)s,
           %(name)s
      from spent_challenge
        on conflict do nothing
    returning user_id
),
new_event as (
    select 'passkey_added' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from added
),
--include recorded
--include recorded_events

-- name: remove_passkey
-- Removes a passkey, but never the last sign-in method. Runs after `lock_user` of sessions.sql, so that of
-- two simultaneous removals the second one sees the first. No row: no such passkey, or it is the last method.
with removed as (
    delete from identity.passkey
     where user_id = %(user_id)s
       and passkey_id = %(passkey_id)s
       and (
               select count(*)
                 from identity.way_in
                where user_id = %(user_id)s
                  and (issuer is null or issuer = %(issuer)s)
           ) > 1
    returning user_id
),
new_event as (
    select 'passkey_removed' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from removed
),
--include recorded
--include recorded_events

-- name: sign_in_methods
-- How many sign-in methods a person has, and whether a password or the provider is one of them.
select count(*) as count,
       count(*) filter (where kind = 'password') > 0 as has_password,
       count(*) filter (where kind = 'provider') > 0 as has_provider
  from identity.way_in
 where user_id = %(user_id)s
   and (issuer is null or issuer = %(issuer)s)
