-- Passkeys, links to reset a password, and the ways in which somebody can sign in at all.

-- What a browser or a device signs in with (WebAuthn). Whose it is, the browser says itself: the user id is
-- what it keeps beside the key. So nothing is ever looked up by the credential's id alone.
create table identity.passkey (
    user_id       uuid        not null,
    passkey_id    uuid        not null default gen_random_uuid(),
    credential_id bytea       not null,
    public_key    bytea       not null,
    sign_count    bigint      not null,
    transports    text[]      not null default '{}',
    name          text        not null,
    created_at    timestamptz not null default now(),
    last_used_at  timestamptz,
    constraint passkey_pkey primary key (user_id, passkey_id),
    constraint passkey_is_added_once unique (user_id, credential_id),
    constraint passkey_belongs_to_a_user
        foreign key (user_id) references identity.user on delete cascade,
    constraint passkey_credential_id_is_short check (length(credential_id) between 1 and 1023),
    constraint passkey_public_key_is_short check (length(public_key) between 1 and 4096),
    constraint passkey_sign_count_is_of_32_bits check (sign_count between 0 and 4294967295),
    constraint passkey_name_is_short check (length(name) between 1 and 100)
);

-- Challenges are signed and not stored, but for those that were answered, so that none is answered twice.
create table identity.spent_challenge (
    user_id        uuid        not null,
    challenge_hash bytea       not null,
    expires_at     timestamptz not null,
    constraint spent_challenge_pkey primary key (user_id, challenge_hash),
    constraint spent_challenge_belongs_to_a_user
        foreign key (user_id) references identity.user on delete cascade
);
create index spent_challenge_by_expiry on identity.spent_challenge (expires_at);

-- The one link with which somebody can choose another password. It is gone when it is used.
create table identity.password_reset (
    user_id    uuid        not null,
    link_hash  bytea       not null,
    created_at timestamptz not null default now(),
    expires_at timestamptz not null,
    constraint password_reset_pkey primary key (user_id),
    constraint password_reset_belongs_to_a_user
        foreign key (user_id) references identity.user on delete cascade
);
create index password_reset_by_expiry on identity.password_reset (expires_at);

-- Every way in which somebody can sign in: the last one is never taken away.
create view identity.way_in as
select user_id,
       'password' as kind
  from identity.password
 union all
select user_id,
       'passkey' as kind
  from identity.passkey;

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
            'consented',
            'token_created',
            'revoked',
            'replay_detected'
        )
    );
