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
-- One application or, without an id, all of them, with how many grants it lives by.
select client.client_id,
       client.client_name,
       client.redirect_uris,
       client.scopes,
       client.created_at,
       client.last_authorized_at,
       (
           select count(*)
             from oauth.live_grant as bond
            where bond.client_id = client.client_id
       ) as grants
  from oauth.client
 where (%(client_id)s::text is null or client.client_id = %(client_id)s::text)
 order by client.created_at,
          client.client_id

-- name: permissions
-- Who lets one application do what now.
select bond.grant_id,
       person.email,
       bond.scopes,
       bond.resource,
       bond.created_at
  from oauth.live_grant as bond
  join identity.user as person using (user_id)
 where bond.client_id = %(client_id)s
 order by person.email,
          bond.created_at,
          bond.grant_id

-- name: hold
-- Keeps everybody from letting an application in until the end of the transaction. A consent that is
-- under way is waited for, so that the next statement sees its grant.
select client_id
  from oauth.client
 where client_id = %(client_id)s
   for update

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
happened as (
    select 'revoked' as event,
           user_id,
           client_id,
           grant_id
      from ended
),
--include noted
--include told
