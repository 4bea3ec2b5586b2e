-- name: store_sign_in
-- Somebody is sent to the provider, and may come back for as long as this says.
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
           now() + %(lifetime)s::interval
       )

-- name: take_sign_in
-- Waiting ─► come back: it is gone for whoever comes second. No row: nobody was sent away so from this
-- browser, or it was too long ago.
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
          created_at

-- name: use_identity
-- Whose identity this is, which is used herewith; no row: nobody's.
update identity.provider_identity
   set last_used_at = now()
  from identity.user as person
 where issuer = %(issuer)s
   and subject = %(subject)s
   and person.user_id = provider_identity.user_id
returning person.user_id,
          person.signed_out_at

-- fragment: identity_of_new_account
-- What a new account is signed in to with, and its first events.
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
-- Open link ─► used, and an account for somebody whom the provider knows, with the address that the link
-- is for, else with the provider's. As `join` of accounts.sql has it, no row: the link is of no use; and
-- it fails, and the link stays open, where address or identity have an account already.
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
    insert into identity.user (email, is_admin)
    select coalesce(used.email, %(email)s),
           used.is_for_first_account
      from used
    returning user_id
),
--include identity_of_new_account
--include recorded
--include recorded_events

-- name: join_by_domain
-- An account for somebody whose address the operator lets in. The first account is made by its link, since
-- it is an administrator's; until then there is none for anybody else. No row: there is none yet. It fails
-- where address or identity have one already.
with added as (
    insert into identity.user (email)
    select %(email)s
     where exists (select from identity.user)
    returning user_id
),
--include identity_of_new_account
--include recorded
--include recorded_events

-- name: connect
-- One more way in for somebody who is signed in. No row: it is an account's already, or the account has
-- another one of this provider, or the session has ended.
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
-- One way in less, where another is left: the last one stays. Comes after `hold` of sessions.sql, so that
-- of two ways that are taken away at once the second one sees that the first is gone. No row: nothing was
-- connected, or it is the last.
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
-- What somebody has of this provider; no row: nothing.
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
