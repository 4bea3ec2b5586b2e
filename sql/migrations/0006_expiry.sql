-- How the janitor finds what nobody needs any more, without looking at what is still needed; and the
-- one definition of a grant that lives.

create index session_by_use on identity.session (seen_at);

create index client_by_registration on oauth.client (created_at) where last_authorized_at is null;
-- The end of the last grant that an application had and that is no longer kept; while it has one, it is
-- in use anyway.
alter table oauth.client add column last_used_at timestamptz;
create index client_by_use on oauth.client (greatest(last_authorized_at, last_used_at))
    where last_authorized_at is not null;
create index authorization_request_by_expiry on oauth.authorization_request (expires_at);
create index grant_by_revocation on oauth.grant (revoked_at) where revoked_at is not null;
-- An operator has nothing but a grant's id. It is no unique index, since keys begin with the user: over
-- several machines nothing else could be held unique.
create index grant_by_id on oauth.grant (grant_id);
create index authorization_code_by_expiry on oauth.authorization_code (expires_at)
    where spent_at is null;
-- These two are written to at each refresh, but always at their right-hand end, which is cheap.
create index refresh_token_by_expiry on oauth.refresh_token (expires_at);
create index access_token_by_expiry on oauth.access_token (expires_at) where expires_at is not null;

-- The one definition of a grant by which something can be reached, or a token be got. One that does
-- not live never will again.
create view oauth.live_grant as
select bond.user_id,
       bond.grant_id,
       bond.client_id,
       bond.name,
       bond.scopes,
       bond.resource,
       bond.created_at
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
