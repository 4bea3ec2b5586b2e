-- Views, each a definition that several statements share. May run again at any time; a view can get further columns
-- at its end here, and lose none.

-- A valid token: with the scopes that it was given and that its grant still has, since a refresh may narrow the
-- grant. The resource server's log lines contain its client and grant.
create or replace view oauth.live_access_token as
select access_token.user_id,
       access_token.token_hash,
       access_token.grant_id,
       case when access_token.scopes <@ oauth.grant.scopes
            then access_token.scopes
            else array(
                     select given.scope
                       from unnest(access_token.scopes) with ordinality as given (scope, place)
                      where given.scope = any (oauth.grant.scopes)
                      order by given.place
                 )
       end as scopes,
       oauth.grant.resource,
       oauth.grant.client_id,
       access_token.retry_until
  from oauth.access_token
  join oauth.grant using (user_id, grant_id)
 where access_token.revoked_at is null
   and (access_token.expires_at is null or access_token.expires_at > now())
   and oauth.grant.revoked_at is null
   and (oauth.grant.expires_at is null or oauth.grant.expires_at > now());

-- A valid grant: its tokens work, or it can still get some. A grant that is not valid never becomes valid again.
create or replace view oauth.live_grant as
select token_grant.user_id,
       token_grant.grant_id,
       token_grant.client_id,
       token_grant.name,
       token_grant.scopes,
       token_grant.resource,
       token_grant.created_at,
       token_grant.last_used_at,
       token_grant.session_hash,
       token_grant.expires_at
  from oauth.grant as token_grant
 where token_grant.revoked_at is null
   and (token_grant.expires_at is null or token_grant.expires_at > now())
   and (
           exists (
               select from oauth.live_access_token
                where live_access_token.user_id = token_grant.user_id
                  and live_access_token.grant_id = token_grant.grant_id
           )
        or exists (
               select from oauth.refresh_token
                where refresh_token.user_id = token_grant.user_id
                  and refresh_token.grant_id = token_grant.grant_id
                  and refresh_token.rotated_at is null
                  and refresh_token.expires_at > now()
           )
        or exists (
               select from oauth.authorization_code
                where authorization_code.user_id = token_grant.user_id
                  and authorization_code.grant_id = token_grant.grant_id
                  and authorization_code.spent_at is null
                  and authorization_code.expires_at > now()
           )
        or exists (
               select from oauth.device_authorization
                where device_authorization.user_id = token_grant.user_id
                  and device_authorization.grant_id = token_grant.grant_id
                  and device_authorization.spent_at is null
                  and device_authorization.expires_at > now()
           )
       );

-- All sign-in methods of accounts: the last one of an account is never removed.
create or replace view identity.way_in as
select user_id,
       'password' as kind,
       null::text as issuer
  from identity.password
 union all
select user_id,
       'passkey' as kind,
       null::text as issuer
  from identity.passkey
 union all
select user_id,
       'provider' as kind,
       issuer
  from identity.provider_identity;
