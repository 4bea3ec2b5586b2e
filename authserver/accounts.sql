-- name: account
-- The account of an address, with the password's hash where it has a password.
select person.user_id,
       person.email,
       password.password_hash
  from identity.user as person
  left join identity.password using (user_id)
 where person.email = %(email)s

-- name: add_account
-- A new account; no row: the address has one already.
insert into identity.user (email, timezone, is_admin)
values (%(email)s, %(timezone)s, %(is_admin)s)
    on conflict (email) do nothing
returning user_id

-- name: set_password
-- The password of an account, its first or another.
insert into identity.password (user_id, password_hash)
values (%(user_id)s, %(password_hash)s)
    on conflict (user_id) do update
   set password_hash = excluded.password_hash,
       changed_at = now()

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
       now() + %(lifetime)s
 where not exists (select from identity.user)
    on conflict (is_for_first_account) where is_for_first_account and used_at is null do update
   set invitation_hash = excluded.invitation_hash,
       created_at = now(),
       expires_at = excluded.expires_at
returning invitation_hash

-- name: invitation
-- A link that can still be used; no row: it was used, has expired, or another took its place.
select is_for_first_account
  from identity.invitation
 where invitation_hash = %(invitation_hash)s
   and used_at is null
   and expires_at > now()
   and (not is_for_first_account or not exists (select from identity.user))

-- name: use_invitation
-- Open link ─► used: of any number of rivals one gets the row.
update identity.invitation
   set used_at = now()
 where invitation_hash = %(invitation_hash)s
   and used_at is null
   and expires_at > now()
   and (not is_for_first_account or not exists (select from identity.user))
returning is_for_first_account

-- name: is_timezone
-- Whether the database knows a zone of that very name, so that days can be formed in it.
select exists (
           select from pg_catalog.pg_timezone_names
            where name = %(timezone)s
              and name not like 'posix%%'
              and name not like 'right/%%'
              and name not in ('Factory', 'localtime')
       ) as is_known
