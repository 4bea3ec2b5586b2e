-- Sign-in through the provider that the operator configures, and invitations for an address.

-- By what a provider knows somebody (OpenID Connect Core 1.0, section 2: issuer and subject, and nothing
-- else). No two accounts may ever have the same one; the table is small enough for that to be held over
-- all of them.
create table identity.provider_identity (
    user_id      uuid        not null,
    issuer       text        not null,
    subject      text        not null,
    email        text,
    created_at   timestamptz not null default now(),
    last_used_at timestamptz,
    constraint provider_identity_pkey primary key (user_id, issuer),
    constraint provider_identity_is_of_one_account unique (issuer, subject),
    constraint provider_identity_belongs_to_a_user
        foreign key (user_id) references identity.user on delete cascade,
    constraint provider_identity_subject_is_short check (length(subject) between 1 and 255),
    constraint provider_identity_email_is_short check (length(email) between 1 and 254)
);

-- Somebody who was sent to the provider and has not come back yet, in the browser that was sent there.
-- With a user id they are signed in, and have to come back as the same person, or want the provider as one
-- more way in.
create table identity.provider_sign_in (
    state_hash      bytea       not null,
    session_hash    bytea       not null,
    user_id         uuid,
    is_connecting   boolean     not null default false,
    nonce           text        not null,
    code_verifier   text        not null,
    going_to        text        not null,
    invitation_hash bytea,
    created_at      timestamptz not null default now(),
    expires_at      timestamptz not null,
    constraint provider_sign_in_pkey primary key (state_hash),
    constraint provider_sign_in_connects_somebody check (user_id is not null or not is_connecting),
    constraint provider_sign_in_belongs_to_a_user
        foreign key (user_id) references identity.user on delete cascade
);
create index provider_sign_in_by_expiry on identity.provider_sign_in (expires_at);

-- An invitation may be for one address, which the account then has.
alter table identity.invitation
    add column email text,
    add constraint invitation_email_is_folded
        check (email = lower(email) and email like '%_@_%' and length(email) <= 254);

-- A provider's identity is a way in only while that provider is the one that is configured, which the
-- database does not know; so it says whose it is.
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

alter table identity.security_event
    drop constraint security_event_is_a_known_one,
    add constraint security_event_is_a_known_one check (
        event in (
            'account_created',
            'signed_in',
            'sign_in_failed',
            'signed_out',
            'password_changed',
            'passkey_added',
            'passkey_removed',
            'passkey_refused',
            'provider_connected',
            'provider_disconnected',
            'consented',
            'token_created',
            'revoked',
            'replay_detected'
        )
    );
