-- name: account
-- The account of an address, with the password's hash where it has a password.
select person.user_id,
       person.email,
       person.signed_out_at,
       password.password_hash
  from identity.user as person
  left join identity.password using (user_id)
 where person.email = %(email)s

-- fragment: password_of_new_account
-- The password of an account that is being made, and its first event.
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
-- A new account with its password. It fails where the address has one already.
with added as (
    insert into identity.user (email, timezone, is_admin)
    values (%(email)s, %(timezone)s, %(is_admin)s)
    returning user_id
),
--include password_of_new_account
--include recorded
--include recorded_events

-- name: join
-- Open link ─► used, and an account; the first one is an administrator's. No row: the link was used, has
-- expired, or another took its place. It fails, and the link stays open, where the address has an
-- account already. Where the link is for one address, the account has that one.
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
-- Another password for whoever is `entitled`. With it all sign-ins end, also those that are under way, and
-- no link to reset the password is worth anything any more.
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
new_event as (
    select 'password_changed' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from changed_password
),

-- fragment: entitled_by_id
entitled as (
    select user_id
      from identity.user
     where user_id = %(user_id)s
),

-- name: change_password
-- Another password for an account, with which all its sign-ins end. No row: there is no such account. What
-- `hold` of sessions.sql says goes for this as well.
with
--include entitled_by_id
--include changed_password
--include password_changed_event
--include recorded
--include recorded_events

-- name: change_own_password
-- The same from a browser in which the owner is signed in, who stays so there, under a new session. No row:
-- that sign-in was ended meanwhile, perhaps because it was not the owner who sat there.
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
-- A one-time link to choose another password, in place of an earlier one.
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
-- Whose password a link resets; no row: it was used, has expired, or another took its place.
select person.user_id,
       person.email
--include open_reset_link

-- name: reset_password
-- Open link ─► used, another password, and a session in the browser that it was chosen in. No row: as
-- above. What `hold` of sessions.sql says goes for this as well: of two that use a link at once, the second
-- one finds it gone.
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
-- The same password under today's parameters, unless it was changed meanwhile.
update identity.password
   set password_hash = %(new_hash)s
 where user_id = %(user_id)s
   and password_hash = %(password_hash)s

-- name: invite_first_account
-- A one-time link for the first account, in place of an earlier one. No row: there is an account.
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
-- A one-time link for an account, where `email` is one that has none yet, or none in particular. No row:
-- that address has an account.
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
-- Whom a link is for that can still be used; no row: it was used, has expired, or another took its place.
select email
  from identity.invitation
 where invitation_hash = %(invitation_hash)s
   and used_at is null
   and expires_at > now()
   and (not is_for_first_account or not exists (select from identity.user))
