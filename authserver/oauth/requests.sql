-- name: store
-- Stores a request for the browser that sent it.
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
-- A pending request of this browser. No row: it was answered, has expired, or is another browser's.
select authorization_request.client_id,
       client.client_name,
       client.redirect_uris as client_redirect_uris,
       authorization_request.redirect_uri,
       authorization_request.state,
       authorization_request.scopes,
       authorization_request.resource,
       authorization_request.code_challenge,
       authorization_request.error,
       authorization_request.error_description,
       authorization_request.device_code_hash is not null as is_device,
       exists (
           select from identity.session
            where session.user_id = %(user_id)s
              and session.session_hash = %(session_hash)s
              and session.created_at > authorization_request.expires_at - %(lifetime)s::interval
              -- The provider may have used an old sign-in of its own. Its clock may be a minute late.
              and session.authenticated_at
                  > authorization_request.expires_at - %(lifetime)s::interval - interval '1 minute'
       ) as has_later_sign_in
  from oauth.authorization_request
  join oauth.client using (client_id)
 where authorization_request.request_hash = %(request_hash)s
   and authorization_request.session_hash = %(session_hash)s
   and authorization_request.expires_at > now()

-- name: late
-- The client of an expired request of this browser. No row: it was answered, is another browser's, or the
-- janitor has deleted it.
select client.client_name,
       authorization_request.redirect_uri
  from oauth.authorization_request
  join oauth.client using (client_id)
 where request_hash = %(request_hash)s
   and session_hash = %(session_hash)s
   and expires_at <= now()

-- name: take
-- Pending request ─► answered, by deleting it, so that it works once. No row: it is no longer pending.
delete from oauth.authorization_request
 where request_hash = %(request_hash)s
   and session_hash = %(session_hash)s
   and expires_at > now()
returning request_hash
