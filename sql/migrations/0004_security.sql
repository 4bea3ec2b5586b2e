-- What happened to accounts and grants. Rows are only ever added; what is old is forgotten by
-- `svc.forget_security_events`, and by nobody else.

-- A sign-in that fails for an address without an account belongs to nobody (a user id of zeros), so
-- there is no foreign key; and what happened to an account stays known when the account is gone.
create table identity.security_event (
    user_id     uuid        not null,
    event_id    uuid        not null default gen_random_uuid(),
    occurred_at timestamptz not null default now(),
    event       text        not null,
    client_id   text,
    grant_id    uuid,
    address     text,
    request_id  text,
    constraint security_event_pkey primary key (user_id, event_id),
    constraint security_event_is_a_known_one check (
        event in (
            'account_created',
            'signed_in',
            'sign_in_failed',
            'signed_out',
            'password_changed',
            'consented',
            'token_created',
            'revoked',
            'replay_detected'
        )
    )
);
create index security_event_by_time on identity.security_event (occurred_at);
create index security_event_by_user on identity.security_event (user_id, occurred_at);
