-- name: account
-- The account with an e-mail address, and its password hash if it has a password.
select person.user_id,
       person.email,
       person.signed_out_at,
       password.password_hash
  from identity.user as person
  left join identity.password using (user_id)
 where person.email = %(email)s

-- name: accounts
-- What operators see of an account or, without an id, of at most `limit`, the newest first.
select person.user_id,
       person.email,
       person.display_name,
       person.timezone,
       person.is_admin,
       person.created_at,
       exists (select from identity.password where password.user_id = person.user_id) as has_password,
       exists (select from identity.passkey where passkey.user_id = person.user_id) as has_passkey,
       exists (
           select
             from identity.provider_identity
            where provider_identity.user_id = person.user_id
       ) as has_provider,
       (select max(seen_at) from identity.session where session.user_id = person.user_id) as seen_at
  from identity.user as person
 where (%(user_id)s::uuid is null or person.user_id = %(user_id)s::uuid)
 order by person.created_at desc,
          person.user_id
 limit %(limit)s

-- name: count_accounts
-- How many accounts there are.
select count(*) as count
  from identity.user

-- fragment: password_of_new_account
-- The password of the account in `added`, and the account's first event.
-- needs: added (user_id)
-- gives: new_event (client_id, event, grant_id, user_id)
new_password as (
    insert into identity.password (user_id, password_hash)
    select user_id,
           %(password_hash)s
      from added
),
new_event as (
    select 'account_created' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from added
),

-- name: add_account
-- Creates an account with its password. Fails with a unique violation if the address has an account.
with added as (
    insert into identity.user (email, timezone, is_admin)
    values (%(email)s, %(timezone)s, %(is_admin)s)
    returning user_id
),
--include password_of_new_account
--include recorded
--include recorded_events

-- name: join
-- Open invitation ─► used, and an account; the first account is an administrator. No row: the invitation
-- was used, has expired or was replaced. Fails with a unique violation, and leaves the invitation open, if
-- the address has an account. If the invitation is limited to an address, the account gets that address.
with used as (
    update identity.invitation
       set used_at = now()
     where invitation_hash = %(invitation_hash)s
       and used_at is null
       and expires_at > now()
       and (not is_for_first_account or not exists (select from identity.user))
    returning is_for_first_account,
              email
),
added as (
    insert into identity.user (email, timezone, is_admin)
    select coalesce(email, %(email)s),
           %(timezone)s,
           is_for_first_account
      from used
    returning user_id
),
--include password_of_new_account
--include recorded
--include recorded_events

-- fragment: changed_password
-- Sets a new password for the account in `entitled`, ends all its sessions, also those that are just being
-- opened, and deletes its reset link.
-- needs: entitled ()
-- gives: changed_password (user_id)
changed_password as (
    insert into identity.password (user_id, password_hash)
    select user_id,
           %(password_hash)s
      from entitled
        on conflict (user_id) do update
       set password_hash = excluded.password_hash,
           changed_at = now()
    returning user_id
),
deleted_reset_link as (
    delete from identity.password_reset
     using changed_password
     where password_reset.user_id = changed_password.user_id
),
signed_out as (
    update identity.user
       set signed_out_at = now()
      from changed_password
     where "user".user_id = changed_password.user_id
),
deleted_session as (
    delete from identity.session
     using changed_password
     where session.user_id = changed_password.user_id
),

-- fragment: password_changed_event
-- needs: changed_password (user_id)
-- gives: new_event (client_id, event, grant_id, user_id)
new_event as (
    select 'password_changed' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from changed_password
),

-- fragment: entitled_by_id
-- gives: entitled (user_id)
entitled as (
    select user_id
      from identity.user
     where user_id = %(user_id)s
),

-- name: change_password
-- Sets a new password and ends all sessions. No row: the account does not exist. Runs after `lock_user` of
-- sessions.sql in the same transaction, for the reason given there.
with
--include entitled_by_id
--include changed_password
--include password_changed_event
--include recorded
--include recorded_events

-- name: change_own_password
-- The same from a browser in which the owner is signed in; that browser stays signed in, with a new session.
-- No row: the session was ended meanwhile, perhaps because it was not the owner who used it.
with entitled as (
    select user_id
      from identity.session
     where user_id = %(user_id)s
       and session_hash = %(old_session_hash)s
),
--include changed_password
admitted as (
    select user_id
      from changed_password
),
--include opened_session
--include password_changed_event
--include recorded
--include recorded_events

-- name: store_reset_link
-- Stores a one-time link to choose a new password. It replaces an earlier one.
insert into identity.password_reset (user_id, link_hash, expires_at)
select user_id,
       %(link_hash)s,
       now() + %(lifetime)s::interval
  from identity.user
 where user_id = %(user_id)s
    on conflict (user_id) do update
   set link_hash = excluded.link_hash,
       created_at = now(),
       expires_at = excluded.expires_at

-- fragment: open_reset_link
from identity.password_reset
join identity.user as person using (user_id)
where password_reset.user_id = %(user_id)s
  and password_reset.link_hash = %(link_hash)s
  and password_reset.expires_at > now()

-- name: reset
-- The account whose password a link resets. No row: the link was used, has expired or was replaced.
select person.user_id,
       person.email
--include open_reset_link

-- name: reset_password
-- Open reset link ─► used, a new password, and a session for the browser that used it. No row: as above.
-- Runs after `lock_user` of sessions.sql: of two simultaneous uses of a link, the second one finds no link.
with entitled as (
    select person.user_id
    --include open_reset_link
),
--include changed_password
admitted as (
    select user_id
      from changed_password
),
--include opened_session
new_event as (
    select event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from opened_session
     cross join unnest(array['password_changed', 'signed_in']) as event
),
--include recorded
--include recorded_events

-- name: rehash_password
-- Replaces the hash of the same password by one with the current parameters, unless it was changed meanwhile.
update identity.password
   set password_hash = %(new_hash)s
 where user_id = %(user_id)s
   and password_hash = %(password_hash)s

-- name: invite_first_account
-- Stores the invitation for the first account. It replaces an earlier one. No row: an account exists.
insert into identity.invitation (invitation_hash, is_for_first_account, expires_at)
select %(invitation_hash)s,
       true,
       now() + %(lifetime)s::interval
 where not exists (select from identity.user)
    on conflict (is_for_first_account) where is_for_first_account and used_at is null do update
   set invitation_hash = excluded.invitation_hash,
       created_at = now(),
       expires_at = excluded.expires_at
returning invitation_hash

-- name: invite
-- Stores an invitation for one account, limited to the address `email` if that is not null. No row: that
-- address has an account.
insert into identity.invitation (invitation_hash, email, expires_at)
select %(invitation_hash)s,
       %(email)s::text,
       now() + %(lifetime)s::interval
 where not exists (
           select from identity.user
            where "user".email = %(email)s::text
       )
returning email

-- name: invitation
-- The address that an open invitation is limited to. No row: it was used, has expired or was replaced.
select email
  from identity.invitation
 where invitation_hash = %(invitation_hash)s
   and used_at is null
   and expires_at > now()
   and (not is_for_first_account or not exists (select from identity.user))
