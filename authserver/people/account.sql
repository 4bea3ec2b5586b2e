-- name: profile
-- The profile of a person.
select display_name,
       timezone,
       week_starts_on
  from identity.user
 where user_id = %(user_id)s

-- name: save_profile
-- Saves a profile. Another time zone moves the ends of all days, so their summaries are marked. No row: the
-- account no longer exists.
with before as (
    select user_id,
           timezone
      from identity.user
     where user_id = %(user_id)s
       for no key update
),
saved as (
       update identity.user
          set display_name = %(display_name)s,
              timezone = %(timezone)s,
              week_starts_on = %(week_starts_on)s
        where user_id = %(user_id)s
    returning user_id
)
select case when before.timezone <> %(timezone)s then svc.mark_all_summaries(user_id, 1) end
  from before
  join saved using (user_id)

-- name: zones
-- The time zones that the database knows. CET, EET, MET and WET are left out: where Postgres computes days
-- it reads them as abbreviations, and so as zones without summer time, which people do not expect.
select name
  from pg_catalog.pg_timezone_names
 where name not like 'posix%'
   and name not like 'right/%'
   and name not in ('Factory', 'localtime', 'CET', 'EET', 'MET', 'WET')
 order by name

-- name: other_administrator
-- Whether there is an administrator other than this person.
select exists (
           select from identity.user
            where is_admin
              and user_id <> %(user_id)s
       ) as is_there

-- name: delete_account
-- Deletes the account of the person who is signed in with a fresh session. No row: the session is not
-- fresh or has ended.
select event,
       user_id,
       client_id,
       grant_id
  from svc.delete_account(%(user_id)s, %(session_hash)s, %(address)s, %(request_id)s)

-- name: become_owner
-- Only the owner may delete another person's account; the servers' roles have no such right.
set role svc_owner

-- name: end_account
-- Deletes an account for the operator. No row: the account does not exist.
select event,
       user_id,
       client_id,
       grant_id
  from svc.end_account(%(user_id)s, %(address)s, %(request_id)s)
