-- name: store_sign_in
-- Stores a sign-in that is about to start at the provider.
insert into identity.provider_sign_in
       (
           state_hash,
           session_hash,
           user_id,
           is_connecting,
           nonce,
           code_verifier,
           going_to,
           invitation_hash,
           timezone,
           expires_at
       )
values (
           %(state_hash)s,
           %(session_hash)s,
           %(user_id)s,
           %(is_connecting)s,
           %(nonce)s,
           %(code_verifier)s,
           %(going_to)s,
           %(invitation_hash)s,
           %(timezone)s,
           now() + %(lifetime)s::interval
       )

-- name: take_sign_in
-- Started sign-in ─► taken, so that it works once. No row: this browser started no such sign-in, it has
-- expired, or it was taken before.
delete from identity.provider_sign_in
 where state_hash = %(state_hash)s
   and session_hash = %(session_hash)s
   and expires_at > now()
returning user_id,
          is_connecting,
          nonce,
          code_verifier,
          going_to,
          invitation_hash,
          timezone,
          created_at

-- name: use_identity
-- The account of an identity; marks the identity as used. No row: no account has it.
update identity.provider_identity
   set last_used_at = now()
  from identity.user as person
 where issuer = %(issuer)s
   and subject = %(subject)s
   and person.user_id = provider_identity.user_id
returning person.user_id,
          person.signed_out_at

-- fragment: identity_of_new_account
-- The identity of the account in `added`, and the account's first events.
-- needs: added (user_id)
-- gives: new_event (client_id, event, grant_id, user_id)
new_identity as (
    insert into identity.provider_identity (user_id, issuer, subject, email, last_used_at)
    select user_id,
           %(issuer)s,
           %(subject)s,
           %(email)s,
           now()
      from added
),
new_event as (
    select 'account_created' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from added
     union all
    select 'provider_connected',
           user_id,
           null,
           null
      from added
),

-- name: join_by_invitation
-- Open invitation ─► used, and an account with an identity at the provider. Its address is the one that the
-- invitation is limited to, otherwise the provider's. As with `join` of accounts.sql: no row if the
-- invitation cannot be used; a unique violation, with the invitation left open, if the address or the
-- identity has an account.
with used as (
    update identity.invitation
       set used_at = now()
     where invitation_hash = %(invitation_hash)s
       and used_at is null
       and expires_at > now()
       and (not is_for_first_account or not exists (select from identity.user))
       and coalesce(email, %(email)s) is not null
    returning is_for_first_account,
              email
),
added as (
    insert into identity.user (email, timezone, is_admin)
    select coalesce(used.email, %(email)s),
           %(timezone)s,
           used.is_for_first_account
      from used
    returning user_id
),
--include identity_of_new_account
--include recorded
--include recorded_events

-- name: join_by_domain
-- Creates an account for an address in an allowed domain. The first account must be created by invitation,
-- because it is an administrator. No row: there is no account yet. Fails with a unique violation if the
-- address or the identity has an account.
with added as (
    insert into identity.user (email, timezone)
    select %(email)s,
           %(timezone)s
     where exists (select from identity.user)
    returning user_id
),
--include identity_of_new_account
--include recorded
--include recorded_events

-- name: connect
-- Connects an identity to the account of a signed-in person. No row: an account has the identity already,
-- the account has another identity at this provider, or the session has ended.
with connected as (
    insert into identity.provider_identity (user_id, issuer, subject, email)
    select user_id,
           %(issuer)s,
           %(subject)s,
           %(email)s
      from identity.session
     where user_id = %(user_id)s
       and session_hash = %(session_hash)s
        on conflict do nothing
    returning user_id
),
new_event as (
    select 'provider_connected' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from connected
),
--include recorded
--include recorded_events

-- name: disconnect
-- Disconnects the provider, unless it is the last sign-in method. Runs after `lock_user` of sessions.sql,
-- so that of two simultaneous removals the second one sees the first. No row: the provider was not
-- connected, or it is the last method.
with disconnected as (
    delete from identity.provider_identity
     where user_id = %(user_id)s
       and issuer = %(issuer)s
       and exists (
               select from identity.way_in
                where way_in.user_id = %(user_id)s
                  and way_in.issuer is null
           )
    returning user_id
),
new_event as (
    select 'provider_disconnected' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from disconnected
),
--include recorded
--include recorded_events

-- name: connection
-- The identity of a person at this provider. No row: none is connected.
select email,
       created_at,
       last_used_at,
       exists (
           select from identity.way_in
            where way_in.user_id = %(user_id)s
              and way_in.issuer is null
       ) as may_disconnect
  from identity.provider_identity
 where user_id = %(user_id)s
   and issuer = %(issuer)s
