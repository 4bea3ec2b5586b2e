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
