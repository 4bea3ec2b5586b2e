-- name: register
-- Adds an application. It has no access until a person consents.
insert into oauth.client (client_id, client_name, redirect_uris, scopes, is_device)
values (%(client_id)s, %(client_name)s, %(redirect_uris)s, %(scopes)s, %(is_device)s)
returning created_at

-- name: store_document
-- Adds an application that is described by a document, or changes what it says. A row that is the same is not written.
insert into oauth.client (client_id, client_name, redirect_uris, scopes)
values (%(client_id)s, %(client_name)s, %(redirect_uris)s, %(scopes)s)
    on conflict (client_id) do update
   set client_name = excluded.client_name,
       redirect_uris = excluded.redirect_uris
 where (client.client_name, client.redirect_uris)
       is distinct from (excluded.client_name, excluded.redirect_uris)

-- name: store_unchecked
-- Adds an application whose document has not been fetched. Changes nothing if the application is stored.
insert into oauth.client (client_id, client_name, redirect_uris, scopes)
values (%(client_id)s, %(client_name)s, %(redirect_uris)s, %(scopes)s)
    on conflict (client_id) do nothing

-- name: client
-- One application by its id. No row: the id is unknown.
select client_id,
       client_name,
       redirect_uris,
       scopes,
       is_device
  from oauth.client
 where client_id = %(client_id)s

-- name: registrations
-- One application or, without an id, at most `limit`, with the number of live grants. Applications with a
-- consent come first, latest consent first; then the others, newest first, because registration is open.
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
-- The live grants of one application.
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
-- Locks an application, so that no consent to it can be committed until the end of the transaction. It waits
-- for consents that are in progress, so that the next statement sees their grants.
select client_id
  from oauth.client
 where client_id = %(client_id)s
   for update

-- name: unrevoked
-- Whether an application has a grant that is not revoked. No row: it has none.
select
  from oauth.grant
 where client_id = %(client_id)s
   and revoked_at is null
 limit 1

-- name: revoke
-- Grants of an application ─► revoked, at most `batch` of them; its pending requests ─► deleted. Answers the
-- grants that were live.
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
--include erased_answers
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
-- Deletes a batch of refresh tokens of an application's revoked grants. The result is the number of deleted
-- rows. Locked tokens are skipped; they are deleted with their grant.
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
-- The same for access tokens.
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
-- The same for the revoked grants, each with its code.
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
-- Deletes an application with its grants and their tokens. Answers the grants that were live.
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
