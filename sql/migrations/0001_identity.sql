-- Who the people are and how they sign in.

create schema identity;

create table identity.user (
    user_id        uuid        not null default gen_random_uuid(),
    email          text        not null,
    display_name   text,
    timezone       text        not null default 'UTC',
    week_starts_on smallint    not null default 1,
    is_admin       boolean     not null default false,
    created_at     timestamptz not null default now(),
    constraint user_pkey primary key (user_id),
    constraint user_email_is_unique unique (email),
    constraint user_email_is_folded check (email = lower(email) and email like '%_@_%' and length(email) <= 254),
    constraint user_display_name_is_short check (length(display_name) between 1 and 100),
    constraint user_week_starts_on_an_iso_weekday check (week_starts_on between 1 and 7)
);

create table identity.password (
    user_id       uuid        not null,
    password_hash text        not null,
    changed_at    timestamptz not null default now(),
    constraint password_pkey primary key (user_id),
    constraint password_belongs_to_a_user
        foreign key (user_id) references identity.user on delete cascade
);

-- A browser in which somebody is signed in. The cookie holds a token; here is its hash.
create table identity.session (
    user_id          uuid        not null,
    session_hash     bytea       not null,
    created_at       timestamptz not null default now(),
    authenticated_at timestamptz not null default now(),
    seen_at          timestamptz not null default now(),
    user_agent       text,
    address          text,
    constraint session_pkey primary key (user_id, session_hash),
    constraint session_belongs_to_a_user
        foreign key (user_id) references identity.user on delete cascade
);

-- A one-time link with which a new account is made. It belongs to no account yet.
create table identity.invitation (
    invitation_hash      bytea       not null,
    is_for_first_account boolean     not null default false,
    created_at           timestamptz not null default now(),
    expires_at           timestamptz not null,
    used_at              timestamptz,
    constraint invitation_pkey primary key (invitation_hash)
);
-- The first account is everybody's administrator, so no two links may ever lead to one.
create unique index invitation_for_first_account_is_one
    on identity.invitation (is_for_first_account) where is_for_first_account and used_at is null;
