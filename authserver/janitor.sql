-- What nobody needs any more, a batch at a time. How many rows a statement deletes is its answer.
--
-- Rows that somebody else has locked are passed over, so no janitor waits for a request or for another
-- janitor. What a statement deletes by cascade, a grant's tokens for example, it may have to wait for:
-- that ends, because whoever locks those rows has locked the grant before, and then it was passed over.
-- The order is that of grants.sql: client, request, grant, tokens. Whoever writes to tokens without their
-- grant, in a batch for instance, has to keep to this: lock those grants first (`for key share`), or pass
-- over the tokens that are locked. Else it and a janitor could each wait for what the other one has.
--
-- Nothing here dies of it. What is removed was dead before, and nothing dead comes to life again, but
-- for clients (see there).

-- name: expired_requests
-- Authorization requests that have waited too long.
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
-- Sign-in sessions that ended for want of use.
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
-- One-time links, used or expired. There are never many: operators make them.
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
-- People who were sent to the provider and did not come back in time.
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

-- name: expired_resets
-- Links to reset a password that nobody used in time; used ones are gone.
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
-- Challenges that were answered. One that is over is refused by its time, which servers may disagree about.
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
-- Access tokens of applications. An API token is all of its grant, and goes with it.
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
-- Refresh tokens that were rotated. Until they expire they are what tells a thief's refresh from the
-- application's. The current one of a grant stays as long as the grant.
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

-- name: refresh_tokens_of_revoked_grants
-- What may hang on a revoked grant in thousands, so that the grant itself goes at a stroke.
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
delete from oauth.grant
 using dead
 where oauth.grant.user_id = dead.user_id
   and oauth.grant.grant_id = dead.grant_id

-- name: record_last_use
-- Removes nothing: it notes for clients until when they had the grants that go next, which nobody could
-- tell afterwards, and answers the grants that it looked at. Only a revoked grant can have been of use in
-- the last 90 days. The newest come first, so that a look at one is enough for all others of its client.
--
-- It stands alone, because a client is locked before its grants. One that somebody else has locked is
-- left out, and its grants stay.
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
-- Grants that were revoked, once their tokens are gone and their client's last use is noted; an API token
-- goes with its grant.
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
-- Grants whose application did not come back in time to refresh, once all other tokens are gone.
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
-- Grants of which nobody ever got a token: their one code has expired, and was not spent.
with dead as (
    select grant_row.user_id,
           grant_row.grant_id
      from oauth.authorization_code
      join oauth.grant as grant_row using (user_id, grant_id)
     where authorization_code.expires_at < now() - interval '1 day'
       and authorization_code.spent_at is null
     order by authorization_code.expires_at
     limit %(batch)s
       for update of grant_row skip locked
)
--include delete_dead_grants

-- name: expired_api_tokens
-- API tokens, each the only one of its grant.
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
and not exists (select from oauth.grant as grant_row where grant_row.client_id = client.client_id)

-- fragment: delete_unused_clients
delete from oauth.client
 using unused
 where oauth.client.client_id = unused.client_id

-- name: unauthorized_clients
-- Applications that registered, and that nobody let in. Somebody may be about to: a consent begins with
-- a lock on the client. If it was first, the client is passed over here, or, where the consent was over a
-- moment before, looked at again and left alone, since `last_authorized_at` has changed. If we were
-- first, the consent waits, and then finds neither client nor request. What a browser brings at the same
-- moment meets the foreign key. So a grant is there, or the person is told that nothing waits.
with unused as (
    select client_id
      from oauth.client
     where last_authorized_at is null
       and created_at < now() - interval '1 day'
       --include without_requests_and_grants
     order by created_at
     limit %(batch)s
       for update of client skip locked
)
--include delete_unused_clients

-- name: idle_clients
-- Applications that had their last consent and their last grant long ago; as above.
with unused as (
    select client_id
      from oauth.client
     where last_authorized_at is not null
       and greatest(last_authorized_at, last_used_at) < now() - interval '90 days'
       --include without_requests_and_grants
     order by greatest(last_authorized_at, last_used_at)
     limit %(batch)s
       for update of client skip locked
)
--include delete_unused_clients

-- name: old_security_events
-- Security events, by the one function that may remove them; a row for each, as a delete counts.
select from generate_series(1, svc.forget_security_events(%(batch)s))

-- name: data_of_deleted_accounts
-- What people left behind whose account is gone, by the one function that may remove it.
select from generate_series(1, svc.forget_departed(%(batch)s))
