-- Whose token was used, for the resource server's log lines.
create or replace view oauth.live_access_token as
select access_token.user_id,
       access_token.token_hash,
       access_token.grant_id,
       access_token.scopes,
       oauth.grant.resource,
       oauth.grant.client_id
  from oauth.access_token
  join oauth.grant using (user_id, grant_id)
 where access_token.revoked_at is null
   and (access_token.expires_at is null or access_token.expires_at > now())
   and oauth.grant.revoked_at is null;
