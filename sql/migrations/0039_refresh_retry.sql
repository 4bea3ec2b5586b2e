-- Usable from version 20 on.
-- Older code of the authorization server repeats no refresh. Older code of the resource server notes the first use of a
-- token within a minute and not at once, so a refresh should be repeatable only when all servers run this version.

-- The answers to refreshes that can be repeated for some seconds (SVC_REFRESH_RETRY_SECONDS). `sealed` is the new pair of
-- tokens. The rotated refresh token opens it; its hash does not (authserver/oauth/retry.py).
create table oauth.refresh_retry (
    user_id           uuid        not null,
    token_hash        bytea       not null,
    grant_id          uuid        not null,
    access_token_hash bytea       not null,
    sealed            bytea       not null,
    expires_at        timestamptz not null,
    constraint refresh_retry_pkey primary key (user_id, token_hash),
    constraint refresh_retry_is_of_a_grant
        foreign key (user_id, grant_id) references oauth.grant on delete cascade
);
create index refresh_retry_by_grant on oauth.refresh_retry (user_id, grant_id);
create index refresh_retry_by_access_token on oauth.refresh_retry (user_id, access_token_hash);
create index refresh_retry_by_expiry on oauth.refresh_retry (expires_at);

-- Until when the refresh that issued the token can be repeated, unless the token is used. A request reads it with the
-- token, so requests need not look the answer up.
alter table oauth.access_token add column retry_until timestamptz;
