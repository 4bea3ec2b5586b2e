-- When something that was granted was last made use of, to the minute. It stands on the grant, since an
-- application's access tokens go a day after their end.
alter table oauth.access_token drop column last_used_at;
alter table oauth.grant add column last_used_at timestamptz;

create or replace view oauth.live_grant as
select bond.user_id,
       bond.grant_id,
       bond.client_id,
       bond.name,
       bond.scopes,
       bond.resource,
       bond.created_at,
       bond.last_used_at
  from oauth.grant as bond
 where bond.revoked_at is null
   and (
           exists (
               select from oauth.live_access_token
                where live_access_token.user_id = bond.user_id
                  and live_access_token.grant_id = bond.grant_id
           )
        or exists (
               select from oauth.refresh_token
                where refresh_token.user_id = bond.user_id
                  and refresh_token.grant_id = bond.grant_id
                  and refresh_token.rotated_at is null
                  and refresh_token.expires_at > now()
           )
        or exists (
               select from oauth.authorization_code
                where authorization_code.user_id = bond.user_id
                  and authorization_code.grant_id = bond.grant_id
                  and authorization_code.spent_at is null
                  and authorization_code.expires_at > now()
           )
       );
