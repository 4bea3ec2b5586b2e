-- Deletions of expired and unused rows, a batch at a time. The result is the number of deleted rows.
--
-- Locked rows are skipped, so no janitor waits for a request or for another janitor. Only rows deleted by
-- cascade, such as a grant's tokens, can make a statement wait. There is no deadlock, because other
-- transactions lock the grant before its tokens, and a locked grant is skipped. The lock order is that of
-- grants.sql: client, request, grant, tokens. A statement that writes to tokens without their grant, for
-- instance in batches, must lock the grants first (`for key share`) or skip locked tokens. Otherwise it and
-- a janitor could wait for each other.
--
-- No live row is deleted. A row that may be deleted once stays so, except for clients (see there). Grants of the
-- dashboard are also deleted with their sign-in session, by a foreign key.

-- name: expired_requests
-- Authorization requests that have expired.
with expired as (
    select request_hash
      from oauth.authorization_request
     where expires_at <= now()
     order by expires_at
     limit %(batch)s
       for update skip locked
)
delete from oauth.authorization_request
 using expired
 where authorization_request.request_hash = expired.request_hash

-- name: idle_sessions
-- Sign-in sessions that were not used for the idle lifetime.
with idle as (
    select user_id,
           session_hash
      from identity.session
     where seen_at <= now() - %(idle_lifetime)s::interval
     order by seen_at
     limit %(batch)s
       for update skip locked
)
delete from identity.session
 using idle
 where session.user_id = idle.user_id
   and session.session_hash = idle.session_hash

-- name: ended_links
-- Invitations, used or expired. There are never many: only operators create them.
with ended as (
    select invitation_hash
      from identity.invitation
     where least(used_at, expires_at) < now() - interval '1 day'
     limit %(batch)s
       for update skip locked
)
delete from identity.invitation
 using ended
 where invitation.invitation_hash = ended.invitation_hash

-- name: expired_provider_sign_ins
-- Sign-ins at the provider that were not completed in time.
with expired as (
    select state_hash
      from identity.provider_sign_in
     where expires_at <= now()
     order by expires_at
     limit %(batch)s
       for update skip locked
)
delete from identity.provider_sign_in
 using expired
 where provider_sign_in.state_hash = expired.state_hash

-- name: old_provider_logouts
-- Logouts that the provider announced, when a repetition is refused by its age.
with expired as (
    select logout_hash
      from identity.provider_logout
     where expires_at <= now()
     order by expires_at
     limit %(batch)s
       for update skip locked
)
delete from identity.provider_logout
 using expired
 where provider_logout.logout_hash = expired.logout_hash

-- name: expired_resets
-- Password reset links that have expired. Used ones are deleted on use.
with expired as (
    select user_id
      from identity.password_reset
     where expires_at <= now()
     order by expires_at
     limit %(batch)s
       for update skip locked
)
delete from identity.password_reset
 using expired
 where password_reset.user_id = expired.user_id

-- name: spent_challenges
-- Spent challenges, a day after their expiry. An expired challenge is refused by its time; the day covers
-- differences between the servers' clocks.
with expired as (
    select user_id,
           challenge_hash
      from identity.spent_challenge
     where expires_at < now() - interval '1 day'
     order by expires_at
     limit %(batch)s
       for update skip locked
)
delete from identity.spent_challenge
 using expired
 where spent_challenge.user_id = expired.user_id
   and spent_challenge.challenge_hash = expired.challenge_hash

-- name: expired_access_tokens
-- Access tokens of applications. An API token is deleted with its grant.
with expired as (
    select access_token.user_id,
           access_token.token_hash
      from oauth.access_token
      join oauth.grant as grant_row using (user_id, grant_id)
     where access_token.expires_at < now() - interval '1 day'
       and grant_row.client_id is not null
     order by access_token.expires_at
     limit %(batch)s
       for update of access_token skip locked
)
delete from oauth.access_token
 using expired
 where access_token.user_id = expired.user_id
   and access_token.token_hash = expired.token_hash

-- name: expired_refresh_tokens
-- Rotated refresh tokens that do not name their grant, once they have expired. Until then they are needed to
-- detect a replay. The current refresh token of a grant is kept as long as the grant.
with expired as (
    select user_id,
           token_hash
      from oauth.refresh_token
     where expires_at <= now()
       and rotated_at is not null
     order by expires_at
     limit %(batch)s
       for update skip locked
)
delete from oauth.refresh_token
 using expired
 where refresh_token.user_id = expired.user_id
   and refresh_token.token_hash = expired.token_hash

-- name: rotated_refresh_tokens
-- Rotated refresh tokens that name their grant, after a day. A replay is recognised without them
-- (authserver/lineage.py); refreshes of the last hour are counted by them.
with rotated as (
    select user_id,
           token_hash
      from oauth.refresh_token
     where rotated_at < now() - interval '1 day'
       and names_grant
     order by rotated_at
     limit %(batch)s
       for update skip locked
)
delete from oauth.refresh_token
 using rotated
 where refresh_token.user_id = rotated.user_id
   and refresh_token.token_hash = rotated.token_hash

-- name: expired_answers
-- Sealed answers to refreshes that cannot be repeated any more.
with expired as (
    select user_id,
           token_hash
      from oauth.refresh_retry
     where expires_at <= now()
     order by expires_at
     limit %(batch)s
       for update skip locked
)
delete from oauth.refresh_retry
 using expired
 where refresh_retry.user_id = expired.user_id
   and refresh_retry.token_hash = expired.token_hash

-- name: refresh_tokens_of_revoked_grants
-- Refresh tokens of revoked grants. A grant may have thousands, so they are deleted before the grant.
with dead as (
    select refresh_token.user_id,
           refresh_token.token_hash
      from oauth.grant as grant_row
      join oauth.refresh_token using (user_id, grant_id)
     where grant_row.revoked_at < now() - interval '1 day'
     order by grant_row.revoked_at
     limit %(batch)s
       for update of refresh_token skip locked
)
delete from oauth.refresh_token
 using dead
 where refresh_token.user_id = dead.user_id
   and refresh_token.token_hash = dead.token_hash

-- fragment: delete_dead_grants
-- needs: dead (grant_id, user_id)
delete from oauth.grant
 using dead
 where oauth.grant.user_id = dead.user_id
   and oauth.grant.grant_id = dead.grant_id

-- name: record_last_use
-- Deletes nothing: before revoked grants are deleted, it stores in their clients when the last one was
-- revoked, because that cannot be found out afterwards. It answers the grants that it has processed. Only
-- revoked grants need this: others have not been used for 90 days. The newest come first, so that one grant
-- settles all older ones of its client.
--
-- It is a statement of its own, because a client must be locked before its grants. A locked client is
-- skipped, and its grants are kept.
with ended as (
    select client.client_id,
           grant_row.revoked_at
      from oauth.grant as grant_row
      join oauth.client using (client_id)
     where grant_row.revoked_at < now() - interval '1 day'
       and (client.last_used_at is null or client.last_used_at < grant_row.revoked_at)
     order by grant_row.revoked_at desc
     limit %(batch)s
       for no key update of client skip locked
),
latest as (
    select client_id,
           max(revoked_at) as revoked_at
      from ended
     group by client_id
),
used as (
    update oauth.client
       set last_used_at = latest.revoked_at
      from latest
     where client.client_id = latest.client_id
)
select from ended

-- name: revoked_grants
-- Revoked grants, once their tokens are deleted and their client's last use is stored. An API token is
-- deleted with its grant.
with dead as (
    select grant_row.user_id,
           grant_row.grant_id
      from oauth.grant as grant_row
      left join oauth.client using (client_id)
     where grant_row.revoked_at < now() - interval '1 day'
       and (grant_row.client_id is null or client.last_used_at >= grant_row.revoked_at)
       and not exists (
               select from oauth.refresh_token
                where refresh_token.user_id = grant_row.user_id
                  and refresh_token.grant_id = grant_row.grant_id
           )
       and not exists (
               select from oauth.access_token
                where access_token.user_id = grant_row.user_id
                  and access_token.grant_id = grant_row.grant_id
                  and grant_row.client_id is not null
           )
     order by grant_row.revoked_at
     limit %(batch)s
       for update of grant_row skip locked
)
--include delete_dead_grants

-- name: lapsed_grants
-- Grants whose current refresh token has expired, once all other tokens are deleted.
with dead as (
    select grant_row.user_id,
           grant_row.grant_id
      from oauth.refresh_token as renewal
      join oauth.grant as grant_row using (user_id, grant_id)
     where renewal.expires_at < now() - interval '1 day'
       and renewal.rotated_at is null
       and not exists (
               select from oauth.refresh_token
                where refresh_token.user_id = grant_row.user_id
                  and refresh_token.grant_id = grant_row.grant_id
                  and refresh_token.rotated_at is not null
           )
       and not exists (
               select from oauth.access_token
                where access_token.user_id = grant_row.user_id
                  and access_token.grant_id = grant_row.grant_id
           )
     order by renewal.expires_at
     limit %(batch)s
       for update of grant_row skip locked
)
--include delete_dead_grants

-- name: unredeemed_grants
-- Grants whose code has expired without being redeemed, and that have no tokens. (A grant of the dashboard has tokens,
-- and a code for each renewal.)
with dead as (
    select grant_row.user_id,
           grant_row.grant_id
      from oauth.authorization_code
      join oauth.grant as grant_row using (user_id, grant_id)
     where authorization_code.expires_at < now() - interval '1 day'
       and authorization_code.spent_at is null
       and not exists (
               select from oauth.refresh_token
                where refresh_token.user_id = grant_row.user_id
                  and refresh_token.grant_id = grant_row.grant_id
           )
     order by authorization_code.expires_at
     limit %(batch)s
       for update of grant_row skip locked
)
--include delete_dead_grants

-- name: unfetched_grants
-- Grants whose device never fetched its tokens, with its request.
with dead as (
    select grant_row.user_id,
           grant_row.grant_id
      from oauth.device_authorization as device
      join oauth.grant as grant_row using (user_id, grant_id)
     where device.expires_at < now() - interval '1 day'
       and device.spent_at is null
     order by device.expires_at
     limit %(batch)s
       for update of grant_row skip locked
)
--include delete_dead_grants

-- name: expired_devices
-- Requests of devices, a day after their end. Until then a device that still polls learns that its code has expired.
with expired as (
    select device_code_hash
      from oauth.device_authorization
     where expires_at < now() - interval '1 day'
       and (grant_id is null or spent_at is not null)
     order by expires_at
     limit %(batch)s
       for update skip locked
)
delete from oauth.device_authorization
 using expired
 where device_authorization.device_code_hash = expired.device_code_hash

-- name: expired_api_tokens
-- Grants of expired API tokens, with the token.
with dead as (
    select grant_row.user_id,
           grant_row.grant_id
      from oauth.access_token
      join oauth.grant as grant_row using (user_id, grant_id)
     where access_token.expires_at < now() - interval '1 day'
       and grant_row.client_id is null
     order by access_token.expires_at
     limit %(batch)s
       for update of grant_row skip locked
)
--include delete_dead_grants

-- fragment: without_requests_and_grants
and not exists (
        select from oauth.authorization_request
         where authorization_request.client_id = client.client_id
    )
and not exists (
        select from oauth.device_authorization
         where device_authorization.client_id = client.client_id
    )
and not exists (select from oauth.grant as grant_row where grant_row.client_id = client.client_id)

-- fragment: delete_unused_clients
-- needs: unused (client_id)
delete from oauth.client
 using unused
 where oauth.client.client_id = unused.client_id

-- name: unallowed_documents
-- Applications that are described by a document and never got a consent, for a day: the row is a copy, which the next
-- request stores again. A stranger can cause any number of such requests. The same holds as below.
with unused as (
    select client_id
      from oauth.client
     where last_authorized_at is null
       and starts_with(client_id, 'https://')
       and created_at < now() - interval '1 day'
       --include without_requests_and_grants
     order by created_at
     limit %(batch)s
       for update of client skip locked
)
--include delete_unused_clients

-- name: unauthorized_clients
-- Applications that registered and never got a consent, for 90 days: many programs register once and keep their
-- client id, and a row is small. The dashboard did not register, and is kept. A consent may come at the same moment: it begins by
-- locking the client. If the consent is first, the client is skipped here; if the consent has just been
-- committed, the client is checked again and kept, because `last_authorized_at` has changed. If this
-- statement is first, the consent waits and then finds neither client nor request. An authorization request
-- that is stored at the same moment violates the foreign key. So either a grant exists, or the person sees
-- that the request is no longer open.
with unused as (
    select client_id
      from oauth.client
     where last_authorized_at is null
       and client_id <> %(dashboard_client_id)s
       and created_at < now() - interval '90 days'
       --include without_requests_and_grants
     order by created_at
     limit %(batch)s
       for update of client skip locked
)
--include delete_unused_clients

-- name: idle_clients
-- Applications whose last consent and last grant are long ago; the same holds as above.
with unused as (
    select client_id
      from oauth.client
     where last_authorized_at is not null
       and client_id <> %(dashboard_client_id)s
       and greatest(last_authorized_at, last_used_at) < now() - interval '2 years'
       --include without_requests_and_grants
     order by greatest(last_authorized_at, last_used_at)
     limit %(batch)s
       for update of client skip locked
)
--include delete_unused_clients

-- name: old_security_events
-- Security events, by the only function that may delete them. Answers a row for each deleted event.
select from generate_series(1, svc.forget_security_events(%(batch)s))

-- name: old_beats
-- Beats of editors, by the only function that may delete them. Answers a row for each deleted beat.
select from generate_series(1, svc.forget_beats(%(batch)s))

-- name: old_health
-- Digests of messages about health and stages of sleep, by the only function that may delete them without their person.
-- Answers a row for each deleted one.
select from generate_series(1, svc.forget_health(%(batch)s))

-- name: data_of_deleted_accounts
-- Data of deleted accounts, by the only function that may delete it.
select from generate_series(1, svc.forget_departed(%(batch)s))
