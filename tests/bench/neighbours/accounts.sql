-- What accounts of the neighbours' run hold.

-- name: add_person
-- A person with a password, or the one with this address.
with added as (
    insert into identity.user (email)
    values (%(email)s)
    on conflict do nothing
    returning user_id
),
password as (
    insert into identity.password (user_id, password_hash)
    select user_id,
           %(password_hash)s
      from added
)
select user_id
  from added
 union all
select user_id
  from identity.user
 where email = %(email)s

-- name: add_refresh_token
-- A grant to an application, with its refresh token.
with granted as (
    insert into oauth.grant (user_id, client_id, scopes)
    values (%(user_id)s, %(client_id)s, '{read:profile}')
    returning user_id, grant_id
)
insert into oauth.refresh_token (user_id, token_hash, grant_id, expires_at)
select user_id,
       %(token_hash)s,
       grant_id,
       now() + interval '90 days'
  from granted

-- name: add_sessions
-- So many sessions from a moment on, each so long and so long after the one before, of titles that are random
-- letters x and y.
with device as (
    insert into activity.device (user_id, name)
    values (%(user_id)s, %(device)s)
    returning user_id, device_id
)
insert into activity.app_session (user_id, idempotency_key, device_id, started_at, ended_at, app, title)
select device.user_id,
       %(device)s || n,
       device.device_id,
       %(from)s::timestamptz + n * %(every)s::interval,
       %(from)s::timestamptz + n * %(every)s::interval + %(length)s::interval,
       'App ' || n %% 40,
       translate(encode(sha256(n::text::bytea) || sha256((-n)::text::bytea), 'hex'),
                 '0123456789abcdef', 'xyxyxyxyxyxyxyxy')
  from device
 cross join generate_series(1, %(count)s) as n

-- name: mark_days
-- Marks all days of a person, as ingest would have done. Rollups of these days are due at once.
select svc.mark_all_days(%(user_id)s)

-- name: delay_rollups
-- Has all days of a person wait for their rollups, as if something had been written to them just now.
update activity.rollup_due
   set marked_at = now()
 where user_id = %(user_id)s

-- name: add_rule
-- Adds a rule as its page does; the problem with it, if any.
select problem
  from svc.insert_rule(%(user_id)s, 'title', 'regex', %(pattern)s, %(category)s)

-- name: job_runs
-- Whether a background job of the resource server is busy with one statement for a second or longer.
select exists (
           select
             from pg_stat_activity
            where usename = 'svc_worker'
              and state = 'active'
              and query_start < now() - interval '1 second'
       )
