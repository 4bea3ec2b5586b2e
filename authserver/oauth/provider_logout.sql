-- name: lock_logout
-- Runs before `end_provider_sign_ins`, in the same transaction. It waits for sign-ins that are just being completed with
-- the session at the provider or by the identity, so that the next statement sees their sessions. Sign-ins take the
-- locks in the same order (sessions.sql).
with owner as (
    select person.user_id
      from identity.provider_identity
      join identity.user as person using (user_id)
     where provider_identity.issuer = %(issuer)s
       and provider_identity.subject = %(subject)s
       for no key update of person
)
select svc.lock_provider_session(%(provider_session_hash)s),
       (select count(*) from owner) as owners

-- name: end_provider_sign_ins
-- Ends the sign-in sessions of one session at the provider, or all of the person with an identity, and all grants of
-- that person if `ends_grants`. A row for each security event, and one without an event if there is none. No row: this
-- logout was accepted before.
with accepted as (
    insert into identity.provider_logout (logout_hash, provider_session_hash, expires_at)
    values (
               %(logout_hash)s,
               %(provider_session_hash)s,
               now() + %(kept_for)s::interval
           )
        on conflict do nothing
    returning logout_hash
),
person as (
    select provider_identity.user_id
      from identity.provider_identity
     where provider_identity.issuer = %(issuer)s
       and provider_identity.subject = %(subject)s
       and exists (select from accepted)
     union
    select session.user_id
      from identity.session
     where %(subject)s::text is null
       and session.provider_session_hash = %(provider_session_hash)s
       and exists (select from accepted)
),
ending_session as (
    select session.user_id,
           session.session_hash
      from identity.session
      join person using (user_id)
     where %(provider_session_hash)s::bytea is null
        or session.provider_session_hash = %(provider_session_hash)s
     order by session.session_hash
       for update of session
),
closed_session as (
    delete from identity.session
     using ending_session
     where session.user_id = ending_session.user_id
       and session.session_hash = ending_session.session_hash
    returning session.user_id,
              session.seen_at > now() - %(idle_lifetime)s::interval as was_live
),
-- Sign-ins of the person that are under way must not open a session either.
signed_out as (
    update identity.user
       set signed_out_at = now()
      from person
     where identity.user.user_id = person.user_id
       and %(provider_session_hash)s::bytea is null
),
ended_grant as (
    select live_grant.user_id,
           live_grant.grant_id
      from oauth.live_grant
      join person using (user_id)
     where %(ends_grants)s::boolean
),
revoked as (
    update oauth.grant
       set revoked_at = now()
      from person
     where oauth.grant.user_id = person.user_id
       and %(ends_grants)s::boolean
       and oauth.grant.revoked_at is null
       -- Sessions are locked before grants, as everywhere.
       and (select count(*) from closed_session) >= 0
    returning oauth.grant.user_id,
              oauth.grant.client_id,
              oauth.grant.grant_id
),
--include erased_answers
new_event as (
    select 'signed_out' as event,
           user_id,
           null::text as client_id,
           null::uuid as grant_id
      from closed_session
     where was_live
     union all
    select 'revoked',
           revoked.user_id,
           revoked.client_id,
           revoked.grant_id
      from revoked
      join ended_grant using (user_id, grant_id)
),
--include recorded
select recorded.event,
       recorded.user_id,
       recorded.client_id,
       recorded.grant_id
  from accepted
  left join recorded
    on true
