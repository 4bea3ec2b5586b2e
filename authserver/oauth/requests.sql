-- name: store
-- Keeps a request for the browser that brought it.
insert into oauth.authorization_request
       (
           request_hash,
           session_hash,
           client_id,
           redirect_uri,
           state,
           scopes,
           resource,
           code_challenge,
           error,
           error_description,
           expires_at
       )
values (
           %(request_hash)s,
           %(session_hash)s,
           %(client_id)s,
           %(redirect_uri)s,
           %(state)s,
           %(scopes)s,
           %(resource)s,
           %(code_challenge)s,
           %(error)s,
           %(error_description)s,
           now() + %(lifetime)s::interval
       )

-- name: pending
-- A request that waits in this browser; no row: answered, expired, or another browser's.
select authorization_request.client_id,
       client.client_name,
       authorization_request.redirect_uri,
       authorization_request.state,
       authorization_request.scopes,
       authorization_request.resource,
       authorization_request.code_challenge,
       authorization_request.error,
       authorization_request.error_description
  from oauth.authorization_request
  join oauth.client using (client_id)
 where request_hash = %(request_hash)s
   and session_hash = %(session_hash)s
   and expires_at > now()

-- name: late
-- Whose request it was that waited in this browser for too long; no row: it was answered, or another
-- browser's, or it is removed by now.
select client.client_name,
       authorization_request.redirect_uri
  from oauth.authorization_request
  join oauth.client using (client_id)
 where request_hash = %(request_hash)s
   and session_hash = %(session_hash)s
   and expires_at <= now()

-- name: take
-- Waiting request ─► answered: it is gone for whoever comes second. No row: nothing waits any more.
delete from oauth.authorization_request
 where request_hash = %(request_hash)s
   and session_hash = %(session_hash)s
   and expires_at > now()
returning request_hash
