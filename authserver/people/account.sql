-- name: profile
-- What somebody says of themselves.
select display_name,
       timezone,
       week_starts_on
  from identity.user
 where user_id = %(user_id)s

-- name: save_profile
-- Another profile; no row: the account is gone.
update identity.user
   set display_name = %(display_name)s,
       timezone = %(timezone)s,
       week_starts_on = %(week_starts_on)s
 where user_id = %(user_id)s

-- name: zones
-- The time zones that the database knows, so that days can be formed in them. Four of its names it takes for
-- abbreviations where it forms days, and so for zones without summer time, which nobody means by them.
select name
  from pg_catalog.pg_timezone_names
 where name not like 'posix%'
   and name not like 'right/%'
   and name not in ('Factory', 'localtime', 'CET', 'EET', 'MET', 'WET')
 order by name

-- name: other_administrator
-- Whether anybody else is an administrator.
select exists (
           select from identity.user
            where is_admin
              and user_id <> %(user_id)s
       ) as is_there

-- name: delete_account
-- Ends the account of whoever is signed in with a session that was opened a moment ago. No row: it was not,
-- or has ended.
select event,
       user_id,
       client_id,
       grant_id
  from svc.delete_account(%(user_id)s, %(session_hash)s, %(address)s, %(request_id)s)

-- name: become_owner
-- What an operator does with an account is no business of the servers' roles.
set role svc_owner

-- name: end_account
-- Ends somebody's account for the operator; no row: there is no such account.
select event,
       user_id,
       client_id,
       grant_id
  from svc.end_account(%(user_id)s, %(address)s, %(request_id)s)
