-- Usable from version 20 on.
-- Older code leaves the new column at null: a logout that names only the session at the provider does not end these
-- sign-in sessions.

-- The session at the provider with which a person signed in: a hash of the issuer and the provider's name of it (`sid`,
-- OpenID Connect Back-Channel Logout 1.0).
alter table identity.session
    add column provider_session_hash bytea;
create index session_by_provider_session
    on identity.session (provider_session_hash) where provider_session_hash is not null;

-- Logouts that the provider has announced lately. Each announcement is accepted once, and a session that has ended at
-- the provider opens none here.
create table identity.provider_logout (
    logout_hash           bytea       not null,
    provider_session_hash bytea,
    expires_at            timestamptz not null,
    constraint provider_logout_pkey primary key (logout_hash)
);
create index provider_logout_by_provider_session
    on identity.provider_logout (provider_session_hash) where provider_session_hash is not null;
create index provider_logout_by_expiry on identity.provider_logout (expires_at);
