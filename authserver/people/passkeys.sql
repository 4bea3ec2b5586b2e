-- Passkeys: how they are added, used and removed, each in one statement with its security event.

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
-- What an answer is checked with, and when all sign-ins of its owner were ended last.
select passkey.user_id,
       passkey.public_key,
       person.signed_out_at
  from identity.passkey
  join identity.user as person using (user_id)
 where passkey.user_id = %(user_id)s
   and passkey.credential_id = %(credential_id)s

-- fragment: spent_challenge
-- Nobody answers a challenge twice.
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
-- Challenge ─► spent, and a session in place of the browser's present one. An authenticator that counts
-- counts upwards: one that does not was copied, so it signs nobody in, and this is noted. No row: the
-- challenge was answered before, the passkey is gone, or all sign-ins were ended since it was looked up.
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
new_event as (
    select 'signed_in' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from opened_session
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
-- Another passkey for somebody who is signed in. No row: the challenge was answered before, they have this
-- passkey, or as many as anybody may have, or their sign-in was ended meanwhile.
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
-- Takes a passkey away, but never the last way in. It comes after `hold` of sessions.sql, so that of two
-- that are removed at once the second one sees the first gone. No row: there is none, or no other way in.
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
-- In how many ways somebody can sign in, and whether a password or the provider is one of them.
select count(*) as count,
       count(*) filter (where kind = 'password') > 0 as has_password,
       count(*) filter (where kind = 'provider') > 0 as has_provider
  from identity.way_in
 where user_id = %(user_id)s
   and (issuer is null or issuer = %(issuer)s)
