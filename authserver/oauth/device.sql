-- name: store
-- Stores the request of a device. A unique violation: another one has the same user code.
insert into oauth.device_authorization
       (device_code_hash, user_code_hash, client_id, scopes, resource, expires_at, interval_s)
values (
           %(device_code_hash)s,
           %(user_code_hash)s,
           %(client_id)s,
           %(scopes)s,
           %(resource)s,
           now() + %(lifetime)s::interval,
           %(interval_s)s
       )

-- name: begin_consent
-- Waiting device ─► authorization request of the browser in which its person has entered the code, in place of that of
-- another browser. No row: no device waits with this code.
insert into oauth.authorization_request
       (
           request_hash,
           session_hash,
           client_id,
           redirect_uri,
           scopes,
           resource,
           code_challenge,
           device_code_hash,
           expires_at
       )
select %(request_hash)s,
       %(session_hash)s,
       client_id,
       '',
       scopes,
       resource,
       '',
       device_code_hash,
       least(now() + %(lifetime)s::interval, expires_at)
  from oauth.device_authorization
 where user_code_hash = %(user_code_hash)s
   and grant_id is null
   and denied_at is null
   and expires_at > now()
    on conflict (device_code_hash) where device_code_hash is not null do update
   set request_hash = excluded.request_hash,
       session_hash = excluded.session_hash,
       created_at = now(),
       expires_at = excluded.expires_at
returning request_hash

-- name: decline
-- Waiting device ─► denied, and its request answered. No row: the request is no longer pending, or the device was answered
-- in another browser. The device is locked before its request, as a consent locks them.
with open_device as (
    select device.device_code_hash
      from oauth.authorization_request
      join oauth.device_authorization as device using (device_code_hash)
     where authorization_request.request_hash = %(request_hash)s
       and device.grant_id is null
       and device.denied_at is null
       for no key update of device
),
taken as (
    delete from oauth.authorization_request
     using open_device
     where authorization_request.request_hash = %(request_hash)s
       and authorization_request.session_hash = %(session_hash)s
       and authorization_request.expires_at > now()
       and authorization_request.device_code_hash = open_device.device_code_hash
    returning authorization_request.device_code_hash
)
update oauth.device_authorization
   set denied_at = now()
  from taken
 where device_authorization.device_code_hash = taken.device_code_hash
