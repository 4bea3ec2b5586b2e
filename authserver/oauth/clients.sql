-- name: register
-- Adds an application. It may do nothing until somebody lets it in.
insert into oauth.client (client_id, client_name, redirect_uris, scopes)
values (%(client_id)s, %(client_name)s, %(redirect_uris)s, %(scopes)s)
returning created_at

-- name: client
-- One application by its id; no row means that it is unknown.
select client_id,
       client_name,
       redirect_uris,
       scopes
  from oauth.client
 where client_id = %(client_id)s

-- name: registrations
-- One application or, without an id, at most so many of them, with how many grants each lives by. Those
-- that somebody let in come first, the last one before the others, and then those that only registered,
-- the newest first: anybody may register many.
select client.client_id,
       client.client_name,
       client.redirect_uris,
       client.scopes,
       client.created_at,
       client.last_authorized_at,
       (
           select count(*)
             from oauth.live_grant as grant_row
            where grant_row.client_id = client.client_id
       ) as grants
  from oauth.client
 where (%(client_id)s::text is null or client.client_id = %(client_id)s::text)
 order by client.last_authorized_at desc nulls last,
          client.created_at desc,
          client.client_id
 limit %(limit)s

-- name: count
-- How many applications are registered.
select count(*) as count
  from oauth.client

-- name: client_grants
-- Who lets one application do what now.
select grant_row.grant_id,
       person.email,
       grant_row.scopes,
       grant_row.resource,
       grant_row.created_at
  from oauth.live_grant as grant_row
  join identity.user as person using (user_id)
 where grant_row.client_id = %(client_id)s
 order by person.email,
          grant_row.created_at,
          grant_row.grant_id

-- name: lock_client
-- Keeps everybody from letting an application in until the end of the transaction. A consent that is
-- under way is waited for, so that the next statement sees its grant.
select client_id
  from oauth.client
 where client_id = %(client_id)s
   for update

-- name: unrevoked
-- Whether there is anything left to revoke; no row: nothing.
select
  from oauth.grant
 where client_id = %(client_id)s
   and revoked_at is null
 limit 1

-- name: revoke
-- Grants of an application ─► revoked, at a stroke where they are no more than a batch; and what waits
-- for somebody's decision about it ─► gone. It answers the grants that lived.
with undecided as (
    delete from oauth.authorization_request
     where client_id = %(client_id)s
),
dead as (
    select user_id,
           grant_id
      from oauth.grant
     where client_id = %(client_id)s
       and revoked_at is null
     limit %(batch)s
       for no key update
),
ended as (
    select user_id,
           grant_id
      from oauth.live_grant
      join dead using (user_id, grant_id)
),
revoked as (
    update oauth.grant
       set revoked_at = now()
      from dead
     where oauth.grant.user_id = dead.user_id
       and oauth.grant.grant_id = dead.grant_id
    returning oauth.grant.user_id,
              oauth.grant.client_id,
              oauth.grant.grant_id
),
new_event as (
    select 'revoked' as event,
           user_id,
           client_id,
           grant_id
      from revoked
      join ended using (user_id, grant_id)
),
--include recorded
--include recorded_events

-- name: remove_refresh_tokens
-- Refresh tokens of an application's revoked grants, a batch; how many rows were removed is the answer.
-- What a janitor or a request has locked is left to those who remove its grant.
with dead as (
    select refresh_token.user_id,
           refresh_token.token_hash
      from oauth.grant as grant_row
      join oauth.refresh_token using (user_id, grant_id)
     where grant_row.client_id = %(client_id)s
       and grant_row.revoked_at is not null
     limit %(batch)s
       for update of refresh_token skip locked
)
delete from oauth.refresh_token
 using dead
 where refresh_token.user_id = dead.user_id
   and refresh_token.token_hash = dead.token_hash

-- name: remove_access_tokens
-- Access tokens, likewise.
with dead as (
    select access_token.user_id,
           access_token.token_hash
      from oauth.grant as grant_row
      join oauth.access_token using (user_id, grant_id)
     where grant_row.client_id = %(client_id)s
       and grant_row.revoked_at is not null
     limit %(batch)s
       for update of access_token skip locked
)
delete from oauth.access_token
 using dead
 where access_token.user_id = dead.user_id
   and access_token.token_hash = dead.token_hash

-- name: remove_grants
-- The revoked grants themselves, each with its code, likewise.
with dead as (
    select user_id,
           grant_id
      from oauth.grant
     where client_id = %(client_id)s
       and revoked_at is not null
     limit %(batch)s
       for update skip locked
)
delete from oauth.grant
 using dead
 where oauth.grant.user_id = dead.user_id
   and oauth.grant.grant_id = dead.grant_id

-- name: remove
-- Registered application ─► unknown; its grants and all their tokens go with it. It answers those that
-- lived.
with ended as (
    select user_id,
           client_id,
           grant_id
      from oauth.live_grant
     where client_id = %(client_id)s
),
removed as (
    delete from oauth.client
     where client_id = %(client_id)s
),
new_event as (
    select 'revoked' as event,
           user_id,
           client_id,
           grant_id
      from ended
),
--include recorded
--include recorded_events
