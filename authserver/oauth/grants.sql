-- The life cycle of a grant: each transition is one conditional statement that matches only its start state.
--
-- Statements that write tokens lock the grant's row first, with the lock that foreign keys take anyway; a
-- consent locks the application's row. Deleting an account or an application, and the janitor, lock rows in
-- the same order, so there are no deadlocks. Statements about a grant that belongs to a sign-in session lock the
-- session before all of these, as ending the session does.

-- name: lock_session
-- Locks a sign-in session before a consent whose grant belongs to it, in the same transaction. It waits for another
-- consent in that session, so that the next statement sees its grant and replaces it.
select session_hash
  from identity.session
 where user_id = %(user_id)s
   and session_hash = %(owning_session_hash)s
   for no key update

-- name: grant_code
-- Pending request with a consent ─► grant and code; a device fetches its tokens without a code. No row: the request is
-- no longer pending, so that of two submits of one form only one gets a code. A person has at most `most_grants` live
-- grants of applications: those that were not used for longest are revoked. With an `owning_session_hash`, the grant ends
-- with that sign-in session, replaces the session's earlier grant of the application, and is not among those; no row if
-- the session has ended.
with pending as (
    -- Lock the application before its request, in the order in which deleting an application locks them.
    select authorization_request.request_hash
      from oauth.authorization_request
      join oauth.client using (client_id)
     where authorization_request.request_hash = %(request_hash)s
       and (
               %(owning_session_hash)s::bytea is null
            or exists (
                   select from identity.session
                    where user_id = %(user_id)s
                      and session_hash = %(owning_session_hash)s::bytea
               )
           )
       for no key update of client
),
open_device as (
    -- Of a device for which another browser has decided meanwhile there is no row.
    select device.device_code_hash
      from pending
      join oauth.authorization_request using (request_hash)
      join oauth.device_authorization as device using (device_code_hash)
     where device.grant_id is null
       and device.denied_at is null
       and device.expires_at > now()
       for no key update of device
),
taken as (
    delete from oauth.authorization_request
     using pending
     where authorization_request.request_hash = pending.request_hash
       and (
               authorization_request.device_code_hash is null
            or exists (select from open_device)
           )
       and authorization_request.session_hash = %(session_hash)s
       and authorization_request.expires_at > now()
       and authorization_request.error is null
    returning authorization_request.client_id,
              authorization_request.resource,
              authorization_request.redirect_uri,
              authorization_request.code_challenge,
              authorization_request.device_code_hash
),
authorized as (
    -- Keeps the janitor from deleting the application as unused.
    update oauth.client
       set last_authorized_at = now()
      from taken
     where oauth.client.client_id = taken.client_id
),
replaced as (
    update oauth.grant
       set revoked_at = now()
      from taken
     where oauth.grant.user_id = %(user_id)s
       and oauth.grant.session_hash = %(owning_session_hash)s::bytea
       and oauth.grant.client_id = taken.client_id
       and oauth.grant.revoked_at is null
    returning oauth.grant.user_id,
              oauth.grant.client_id,
              oauth.grant.grant_id
),
granted as (
    insert into oauth.grant
           (user_id, grant_id, client_id, scopes, resource, session_hash, expires_at)
    select %(user_id)s,
           %(grant_id)s,
           client_id,
           %(scopes)s,
           resource,
           %(owning_session_hash)s::bytea,
           now() + %(grant_lifetime)s::interval
      from taken
    returning user_id,
              client_id,
              grant_id
),
issued as (
    insert into oauth.authorization_code
           (user_id, code_hash, grant_id, redirect_uri, code_challenge, expires_at)
    select granted.user_id,
           %(code_hash)s,
           granted.grant_id,
           taken.redirect_uri,
           taken.code_challenge,
           now() + %(lifetime)s::interval
      from granted,
           taken
     where taken.device_code_hash is null
),
allowed_device as (
    update oauth.device_authorization
       set user_id = granted.user_id,
           grant_id = granted.grant_id
      from granted,
           taken
     where device_authorization.device_code_hash = taken.device_code_hash
),
held_user as (
    -- Deleting the account locks its row before its grants.
    select person.user_id
      from granted
      join identity.user as person using (user_id)
       for key share of person
),
surplus as (
    -- The new grant is not among these rows yet. Concurrent statements lock them in the same order.
    select user_id,
           grant_id
      from oauth.grant
     where (user_id, grant_id) in (
               select live_grant.user_id,
                      live_grant.grant_id
                 from oauth.live_grant
                 join held_user using (user_id)
                where live_grant.client_id is not null
                  and live_grant.session_hash is null
                  and %(owning_session_hash)s::bytea is null
                order by coalesce(live_grant.last_used_at, live_grant.created_at) desc,
                         live_grant.created_at desc
               offset %(most_grants)s - 1
           )
     order by grant_id
       for no key update
),
ended as (
    update oauth.grant
       set revoked_at = now()
      from surplus
     where oauth.grant.user_id = surplus.user_id
       and oauth.grant.grant_id = surplus.grant_id
       and oauth.grant.revoked_at is null
    returning oauth.grant.user_id,
              oauth.grant.client_id,
              oauth.grant.grant_id
),
revoked as (
    select * from replaced
     union all
    select * from ended
),
--include erased_answers
new_event as (
    select 'consented' as event,
           user_id,
           client_id,
           grant_id
      from granted
     union all
    select 'revoked',
           user_id,
           client_id,
           grant_id
      from revoked
),
--include recorded
--include recorded_events

-- name: session_grant
-- The live grant of an application that belongs to a sign-in session. No row: there is none for this resource.
select grant_id
  from oauth.live_grant
 where user_id = %(user_id)s
   and session_hash = %(session_hash)s
   and client_id = %(client_id)s
   and resource is not distinct from %(resource)s::text

-- name: renew
-- Live grant of a sign-in session ─► the same grant with a further code. No row: the grant has ended meanwhile.
with held as (
    select user_id,
           grant_id
      from oauth.grant
     where user_id = %(user_id)s
       and grant_id = %(grant_id)s
       and session_hash = %(session_hash)s
       and revoked_at is null
       for key share
),
issued as (
    insert into oauth.authorization_code
           (user_id, code_hash, grant_id, redirect_uri, code_challenge, expires_at)
    select user_id,
           %(code_hash)s,
           grant_id,
           %(redirect_uri)s,
           %(code_challenge)s,
           now() + %(lifetime)s::interval
      from held
    returning grant_id
)
select grant_id
  from issued

-- fragment: token_pair
-- A token pair for the grant whose code or refresh token was `redeemed`. No token outlives the grant. `retry_lifetime` is
-- null unless a refresh can be repeated.
-- needs: redeemed (grant_id, scopes, expires_at)
-- gives: issued_access_token (expires_at)
issued_refresh_token as (
    insert into oauth.refresh_token (user_id, token_hash, grant_id, expires_at, names_grant)
    select %(user_id)s,
           %(refresh_token_hash)s,
           grant_id,
           least(now() + %(refresh_token_lifetime)s::interval, expires_at),
           grant_id between %(first_grant_id)s::uuid and %(last_grant_id)s::uuid
      from redeemed
),
issued_access_token as (
    insert into oauth.access_token
           (user_id, token_hash, grant_id, scopes, last_four, expires_at, retry_until)
    select %(user_id)s,
           %(access_token_hash)s,
           grant_id,
           scopes,
           %(access_token_last_four)s,
           least(now() + %(access_token_lifetime)s::interval, expires_at),
           now() + %(retry_lifetime)s::interval
      from redeemed
    returning expires_at
),

-- fragment: spent_code
-- gives: spent_code (grant_id, scopes, issued_at, expires_at)
held as (
    select grant_row.grant_id,
           grant_row.scopes,
           grant_row.expires_at
      from oauth.authorization_code
      join oauth.grant as grant_row using (user_id, grant_id)
     where authorization_code.user_id = %(user_id)s
       and authorization_code.code_hash = %(code_hash)s
       and grant_row.user_id = %(user_id)s
       and grant_row.client_id = %(client_id)s
       and grant_row.resource is not distinct from %(resource)s
       and grant_row.revoked_at is null
       and (grant_row.expires_at is null or grant_row.expires_at > now())
       for key share of grant_row
),
spent_code as (
    update oauth.authorization_code
       set spent_at = now()
      from held
     where authorization_code.user_id = %(user_id)s
       and authorization_code.code_hash = %(code_hash)s
       and authorization_code.redirect_uri = %(redirect_uri)s
       and authorization_code.code_challenge = %(code_challenge)s
       and authorization_code.expires_at > now()
       and authorization_code.spent_at is null
    returning held.grant_id,
              held.scopes,
              authorization_code.issued_at,
              held.expires_at
),

-- name: redeem_code
-- Code ─► token pair. No row: the code is spent or expired, or a parameter does not match it.
with
--include spent_code
redeemed as (
    select grant_id,
           scopes,
           expires_at
      from spent_code
),
--include token_pair
new_event as (
    select 'token_created' as event,
           %(user_id)s::uuid as user_id,
           %(client_id)s::text as client_id,
           grant_id
      from redeemed
),
--include recorded
select grant_id,
       scopes,
       extract(epoch from issued_access_token.expires_at - now())::integer as expires_in
  from redeemed,
       issued_access_token

-- name: poll
-- The state of a device's request, null for what it lacks; notes the poll of one that waits. A device that polls too soon
-- must wait 5 s longer from now on (RFC 8628, section 3.5). No row: the device code is not one of the service.
with device as (
    select device_code_hash,
           client_id,
           resource,
           user_id,
           grant_id,
           denied_at is not null as is_denied,
           spent_at is not null as is_spent,
           expires_at <= now() as is_expired,
           coalesce(polled_at > now() - make_interval(secs => interval_s), false) as is_too_soon
      from oauth.device_authorization
     where device_code_hash = %(device_code_hash)s
       for no key update
),
polled as (
    update oauth.device_authorization
       set polled_at = now(),
           interval_s = case
               when device.is_too_soon
               then least(device_authorization.interval_s + 5, %(longest_interval_s)s)
               else device_authorization.interval_s
           end
      from device
     where device_authorization.device_code_hash = device.device_code_hash
       and device.client_id = %(client_id)s
       and device.grant_id is null
)
select client_id,
       resource,
       user_id,
       grant_id,
       is_denied,
       is_spent,
       is_expired,
       is_too_soon
  from device

-- name: redeem_device_code
-- Allowed device ─► token pair. No row: the device code is spent or expired, or its grant is revoked.
with held as (
    select grant_row.grant_id,
           grant_row.scopes,
           grant_row.expires_at
      from oauth.device_authorization as device
      join oauth.grant as grant_row using (user_id, grant_id)
     where device.device_code_hash = %(device_code_hash)s
       and device.user_id = %(user_id)s
       and grant_row.user_id = %(user_id)s
       and grant_row.client_id = %(client_id)s
       and grant_row.revoked_at is null
       and (grant_row.expires_at is null or grant_row.expires_at > now())
       for key share of grant_row
),
redeemed as (
    update oauth.device_authorization
       set spent_at = now()
      from held
     where device_authorization.device_code_hash = %(device_code_hash)s
       and device_authorization.expires_at > now()
       and device_authorization.spent_at is null
    returning held.grant_id,
              held.scopes,
              held.expires_at
),
--include token_pair
new_event as (
    select 'token_created' as event,
           %(user_id)s::uuid as user_id,
           %(client_id)s::text as client_id,
           grant_id
      from redeemed
),
--include recorded
select grant_id,
       scopes,
       extract(epoch from issued_access_token.expires_at - now())::integer as expires_in
  from redeemed,
       issued_access_token

-- name: lock_grant_of_code
-- Locks the grant of a code before the next statement, in the same transaction. Of two codes of one grant, the second
-- one waits, and then ends the refresh token of the first one.
select grant_row.grant_id
  from oauth.authorization_code
  join oauth.grant as grant_row using (user_id, grant_id)
 where authorization_code.user_id = %(user_id)s
   and authorization_code.code_hash = %(code_hash)s
   and grant_row.user_id = %(user_id)s
   for no key update of grant_row

-- name: redeem_code_of_session
-- The same for a grant that belongs to a sign-in session, which may be renewed. The earlier pair of the grant ends. Access
-- tokens that were issued after the code are kept: two tabs have renewed the grant at once, and both go on.
with
--include spent_code
rotated_token as (
    update oauth.refresh_token
       set rotated_at = now()
      from spent_code
     where refresh_token.user_id = %(user_id)s
       and refresh_token.grant_id = spent_code.grant_id
       and refresh_token.rotated_at is null
    returning refresh_token.grant_id
),
ended_token as (
    update oauth.access_token
       set revoked_at = now()
      from spent_code
     where access_token.user_id = %(user_id)s
       and access_token.grant_id = spent_code.grant_id
       and access_token.issued_at < spent_code.issued_at
       and access_token.revoked_at is null
),
forgotten_code as (
    -- Their tokens have ended, so replay detection does not need them.
    delete from oauth.authorization_code
     using spent_code
     where authorization_code.user_id = %(user_id)s
       and authorization_code.grant_id = spent_code.grant_id
       and authorization_code.expires_at < now() - interval '1 day'
),
redeemed as (
    -- The join ends the earlier refresh token before the next one is stored: a grant has only one that is current.
    select spent_code.grant_id,
           spent_code.scopes,
           spent_code.expires_at,
           rotated_token.grant_id is null as is_first
      from spent_code
      left join rotated_token using (grant_id)
),
--include token_pair
new_event as (
    select 'token_created' as event,
           %(user_id)s::uuid as user_id,
           %(client_id)s::text as client_id,
           grant_id
      from redeemed
     where is_first
),
--include recorded
select grant_id,
       scopes,
       extract(epoch from issued_access_token.expires_at - now())::integer as expires_in,
       is_first
  from redeemed,
       issued_access_token

-- name: revoke_grant_of_spent_code
-- Spent code, presented again ─► revoked grant. Changes nothing if the code is not spent.
with revoked as (
    update oauth.grant
       set revoked_at = now()
      from oauth.authorization_code
     where authorization_code.user_id = %(user_id)s
       and authorization_code.code_hash = %(code_hash)s
       and authorization_code.spent_at is not null
       and oauth.grant.user_id = %(user_id)s
       and oauth.grant.grant_id = authorization_code.grant_id
       and oauth.grant.revoked_at is null
    returning oauth.grant.user_id,
              oauth.grant.client_id,
              oauth.grant.grant_id
),
--include erased_answers
new_event as (
    select 'replay_detected' as event,
           user_id,
           client_id,
           grant_id
      from revoked
),
--include recorded
--include recorded_events

-- name: code
-- A code as it was issued, to find out why it was refused. No row: it is unknown.
select authorization_code.redirect_uri,
       authorization_code.code_challenge,
       authorization_code.spent_at is not null as is_spent,
       authorization_code.expires_at <= now() as is_expired,
       grant_row.client_id,
       grant_row.resource,
       grant_row.revoked_at is not null as is_revoked
  from oauth.authorization_code
  join oauth.grant as grant_row using (user_id, grant_id)
 where authorization_code.user_id = %(user_id)s
   and authorization_code.code_hash = %(code_hash)s
   and grant_row.user_id = %(user_id)s

-- fragment: recent_rotations
select earlier.rotated_at
  from oauth.refresh_token as earlier
 where earlier.user_id = %(user_id)s
   and earlier.grant_id = grant_row.grant_id
   and earlier.rotated_at > now() - interval '1 hour'

-- fragment: presented
-- The refresh token with this hash. If a signed token has no row, it was rotated and its row has been deleted.
-- If its grant has been deleted too, it is unknown and there is no row here.
presented as (
    select refresh_token.grant_id,
           refresh_token.rotated_at is not null as is_rotated,
           refresh_token.expires_at <= now() as is_expired
      from oauth.refresh_token
     where refresh_token.user_id = %(user_id)s
       and refresh_token.token_hash = %(token_hash)s
     union all
    select named.grant_id,
           true,
           false
      from oauth.grant as named
     where named.user_id = %(user_id)s
       and named.grant_id between %(first_grant_id)s::uuid and %(last_grant_id)s::uuid
       and named.client_id is not null
       and not exists (
               select from oauth.refresh_token
                where refresh_token.user_id = %(user_id)s
                  and refresh_token.token_hash = %(token_hash)s
           )
),

-- fragment: rotated
-- gives: redeemed (grant_id, scopes, expires_at)
held as (
    select grant_row.grant_id,
           coalesce(%(scopes)s::text[], grant_row.scopes) as scopes,
           grant_row.expires_at
      from oauth.refresh_token
      join oauth.grant as grant_row using (user_id, grant_id)
     where refresh_token.user_id = %(user_id)s
       and refresh_token.token_hash = %(token_hash)s
       and grant_row.user_id = %(user_id)s
       and grant_row.client_id = %(client_id)s
       and grant_row.revoked_at is null
       and (grant_row.expires_at is null or grant_row.expires_at > now())
       and (%(scopes)s::text[] is null or grant_row.scopes @> %(scopes)s::text[])
       and (%(resource)s::text is null or grant_row.resource = %(resource)s::text)
       and (
               %(refreshes_per_hour)s::integer is null
            or (
                   select count(*)
                     from (
                              --include recent_rotations
                               limit %(refreshes_per_hour)s::integer
                          ) as rotation
               ) < %(refreshes_per_hour)s::integer
           )
       for key share of grant_row
),
redeemed as (
    update oauth.refresh_token
       set rotated_at = now()
      from held
     where refresh_token.user_id = %(user_id)s
       and refresh_token.token_hash = %(token_hash)s
       and refresh_token.expires_at > now()
       and refresh_token.rotated_at is null
    returning held.grant_id,
              held.scopes,
              held.expires_at
),

-- name: rotate
-- Token pair ─► next token pair; the scopes of the grant may be narrowed. No row: the refresh token was
-- rotated before or has expired, a parameter does not match it, or the grant was refreshed too often.
with
--include rotated
--include token_pair
narrowed as (
    update oauth.grant
       set scopes = redeemed.scopes
      from redeemed
     where oauth.grant.user_id = %(user_id)s
       and oauth.grant.grant_id = redeemed.grant_id
       and oauth.grant.scopes <> redeemed.scopes
)
select grant_id,
       scopes,
       extract(epoch from issued_access_token.expires_at - now())::integer as expires_in
  from redeemed,
       issued_access_token

-- name: rotate_repeatably
-- The same, and keeps the sealed answer, so that the refresh can be repeated. What was kept of the refresh before is
-- erased: its refresh token is used here.
with
--include rotated
--include token_pair
erased as (
    delete from oauth.refresh_retry
     using redeemed
     where refresh_retry.user_id = %(user_id)s
       and refresh_retry.grant_id = redeemed.grant_id
),
kept as (
    insert into oauth.refresh_retry
           (user_id, token_hash, grant_id, access_token_hash, sealed, expires_at)
    select %(user_id)s,
           %(token_hash)s,
           grant_id,
           %(access_token_hash)s,
           %(sealed)s,
           now() + %(retry_lifetime)s::interval
      from redeemed
),
narrowed as (
    update oauth.grant
       set scopes = redeemed.scopes
      from redeemed
     where oauth.grant.user_id = %(user_id)s
       and oauth.grant.grant_id = redeemed.grant_id
       and oauth.grant.scopes <> redeemed.scopes
)
select grant_id,
       scopes,
       extract(epoch from issued_access_token.expires_at - now())::integer as expires_in
  from redeemed,
       issued_access_token

-- name: revoke_grant_of_rotated_refresh_token
-- Rotated refresh token, presented again ─► revoked grant. Changes nothing if it is the current one.
with
--include presented
revoked as (
    update oauth.grant
       set revoked_at = now()
      from presented
     where presented.is_rotated
       and oauth.grant.user_id = %(user_id)s
       and oauth.grant.grant_id = presented.grant_id
       and oauth.grant.revoked_at is null
    returning oauth.grant.user_id,
              oauth.grant.client_id,
              oauth.grant.grant_id
),
--include erased_answers
new_event as (
    select 'replay_detected' as event,
           user_id,
           client_id,
           grant_id
      from revoked
),
--include recorded
--include recorded_events

-- name: refresh_token
-- A refresh token as it was issued, to find out why it was refused. No row: it is unknown.
with
--include presented
grant_row as (
    select *
      from oauth.grant
     where user_id = %(user_id)s
)
select grant_row.grant_id,
       presented.is_rotated,
       presented.is_expired or coalesce(grant_row.expires_at <= now(), false) as is_expired,
       grant_row.client_id,
       grant_row.resource,
       grant_row.scopes,
       grant_row.revoked_at is not null as is_revoked,
       (
           -- When this rotation is an hour old, only `refreshes_per_hour` - 1 are left.
           select ceil(extract(epoch from rotation.rotated_at + interval '1 hour' - now()))::integer
             from (
                      --include recent_rotations
                         and %(refreshes_per_hour)s::integer is not null
                       order by earlier.rotated_at desc
                      offset %(refreshes_per_hour)s::integer - 1
                       limit 1
                  ) as rotation
       ) as retry_after_s
  from presented
  join grant_row using (grant_id)

-- name: revoke_by_refresh_token
-- Refresh token, current or rotated, revoked by its client ─► revoked grant.
with
--include presented
revoked as (
    update oauth.grant
       set revoked_at = now()
      from presented
     where oauth.grant.user_id = %(user_id)s
       and oauth.grant.grant_id = presented.grant_id
       and oauth.grant.revoked_at is null
       and (%(client_id)s::text is null or oauth.grant.client_id = %(client_id)s::text)
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
),
--include recorded
--include recorded_events

-- name: revoke_by_access_token
-- Access token, revoked by its holder ─► revoked token. For an API token the grant is revoked too.
with held as (
    select grant_row.user_id,
           grant_row.client_id,
           grant_row.grant_id
      from oauth.access_token
      join oauth.grant as grant_row using (user_id, grant_id)
     where access_token.user_id = %(user_id)s
       and access_token.token_hash = %(token_hash)s
       and grant_row.user_id = %(user_id)s
       and (%(client_id)s::text is null or grant_row.client_id = %(client_id)s::text)
       for key share of grant_row
),
ended as (
    update oauth.access_token
       set revoked_at = now()
      from held
     where access_token.user_id = %(user_id)s
       and access_token.token_hash = %(token_hash)s
       and access_token.revoked_at is null
    returning held.user_id,
              held.client_id,
              held.grant_id
),
revoked as (
    update oauth.grant
       set revoked_at = now()
      from ended
     where oauth.grant.user_id = %(user_id)s
       and oauth.grant.grant_id = ended.grant_id
       and oauth.grant.revoked_at is null
       and ended.client_id is null
),
erased as (
    delete from oauth.refresh_retry
     where user_id = %(user_id)s
       and access_token_hash = %(token_hash)s
       and exists (select from ended)
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

-- name: revoke_grant
-- Revokes a grant for its owner. No row: it is not this person's, or was revoked before.
with revoked as (
    update oauth.grant
       set revoked_at = now()
     where user_id = %(user_id)s
       and grant_id = %(grant_id)s
       and revoked_at is null
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
),
--include recorded
--include recorded_events

-- name: revoke_client
-- Revokes all grants of an application for their owner, and answers those that were live. No row: none was.
with ended as (
    select grant_id
      from oauth.live_grant
     where user_id = %(user_id)s
       and client_id = %(client_id)s
),
revoked as (
    update oauth.grant
       set revoked_at = now()
     where user_id = %(user_id)s
       and client_id = %(client_id)s
       and revoked_at is null
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
      join ended using (grant_id)
),
--include recorded
--include recorded_events

-- name: lock_user
-- Locks a person's row before a statement that checks a limit, in the same transaction. It waits for
-- concurrent transactions that count against the limit, so that the next statement sees their rows.
select user_id
  from identity.user
 where user_id = %(user_id)s
   for no key update

-- name: grant_api_token
-- Creates a grant with an API token. No row: this grant exists already, the person has the most live API
-- tokens that are allowed, or the session from which it is requested, if any, was ended meanwhile.
with granted as (
    insert into oauth.grant (user_id, grant_id, name, scopes)
    select %(user_id)s,
           %(grant_id)s,
           %(name)s,
           %(scopes)s
     where (
               select count(*)
                 from oauth.live_grant
                where user_id = %(user_id)s
                  and client_id is null
           ) < %(most)s
       and (
               %(session_hash)s::bytea is null
            or exists (
                   select from identity.session
                    where user_id = %(user_id)s
                      and session_hash = %(session_hash)s::bytea
               )
           )
        on conflict (user_id, grant_id) do nothing
    returning user_id,
              client_id,
              grant_id,
              scopes
),
issued as (
    insert into oauth.access_token (user_id, token_hash, grant_id, scopes, last_four, expires_at)
    select user_id,
           %(token_hash)s,
           grant_id,
           scopes,
           %(last_four)s,
           now() + %(lifetime)s::interval
      from granted
),
new_event as (
    select 'token_created' as event,
           user_id,
           client_id,
           grant_id
      from granted
),
--include recorded
--include recorded_events

-- name: grants
-- The live grants of a person, oldest first, with the name of the API token or application and, for an
-- application, the redirect URI of its code. A grant of an application lasts as long as it can refresh,
-- whether or not it has a valid access token at this moment.
select grant_row.grant_id,
       coalesce(grant_row.name, client.client_name, grant_row.client_id) as title,
       grant_row.client_id,
       grant_row.scopes,
       grant_row.resource,
       code.redirect_uri,
       api_token.last_four,
       grant_row.created_at,
       grant_row.last_used_at,
       coalesce(api_token.expires_at, renewal.expires_at, code.expires_at) as expires_at,
       grant_row.expires_at as ends_at
  from oauth.live_grant as grant_row
  left join oauth.client using (client_id)
  left join oauth.access_token as api_token
    on api_token.user_id = %(user_id)s
   and api_token.grant_id = grant_row.grant_id
   and grant_row.client_id is null
  left join oauth.refresh_token as renewal
    on renewal.user_id = %(user_id)s
   and renewal.grant_id = grant_row.grant_id
   and renewal.rotated_at is null
  left join lateral (
           -- A grant that was renewed has several codes.
           select redirect_uri,
                  expires_at
             from oauth.authorization_code
            where authorization_code.user_id = %(user_id)s
              and authorization_code.grant_id = grant_row.grant_id
            order by issued_at desc
            limit 1
       ) as code on true
 where grant_row.user_id = %(user_id)s
 order by grant_row.created_at,
          grant_row.grant_id

-- name: granted_scopes
-- The scopes of all live grants of one application from a person; one row for each scope.
select distinct unnest(scopes) as scope
  from oauth.live_grant
 where user_id = %(user_id)s
   and client_id = %(client_id)s

-- name: holder
-- The holder of a person's grant, live or not. No row: they have no grant with that id.
select client_id
  from oauth.grant
 where user_id = %(user_id)s
   and grant_id = %(grant_id)s

-- name: had_grant
-- Whether a person ever gave an application access. No row: there is no grant, not even a revoked one.
select client_id
  from oauth.grant
 where user_id = %(user_id)s
   and client_id = %(client_id)s
 limit 1

-- name: parties
-- The owner and holder of a grant by its id, for operators. No row: there is no such grant.
select user_id,
       client_id
  from oauth.grant
 where grant_id = %(grant_id)s
