-- Applications, what people granted them, and the tokens that come of it.

create schema oauth;

create table oauth.client (
    client_id          text        not null,
    client_name        text,
    redirect_uris      text[]      not null,
    scopes             text[],
    created_at         timestamptz not null default now(),
    last_authorized_at timestamptz,
    constraint client_pkey primary key (client_id),
    constraint client_has_one_to_ten_redirect_uris check (cardinality(redirect_uris) between 1 and 10),
    constraint client_name_is_short check (length(client_name) between 1 and 100)
);

-- A request that waits for its person to sign in and decide, or, where it is not valid, to sign in
-- before the error goes to the application (RFC 9700, section 4.11.2). The form carries its id alone.
-- It belongs to a browser, and to nobody's account.
create table oauth.authorization_request (
    request_hash      bytea       not null,
    session_hash      bytea       not null,
    client_id         text        not null,
    redirect_uri      text        not null,
    state             text,
    scopes            text[],
    resource          text,
    code_challenge    text,
    error             text,
    error_description text,
    created_at        timestamptz not null default now(),
    expires_at        timestamptz not null,
    constraint authorization_request_pkey primary key (request_hash),
    constraint authorization_request_is_of_a_client
        foreign key (client_id) references oauth.client on delete cascade,
    constraint authorization_request_is_whole_or_an_error check (
        case when error is null
             then cardinality(scopes) > 0 and code_challenge is not null
             else error_description is not null
         end
    )
);
create index authorization_request_by_client on oauth.authorization_request (client_id);
create index authorization_request_by_session on oauth.authorization_request (session_hash);

-- What a person let somebody do: an application (client_id), or a program of their own by an API
-- token (name). No token opens anything but through its grant.
create table oauth.grant (
    user_id    uuid        not null,
    grant_id   uuid        not null default gen_random_uuid(),
    client_id  text,
    name       text,
    scopes     text[]      not null,
    resource   text,
    created_at timestamptz not null default now(),
    revoked_at timestamptz,
    constraint grant_pkey primary key (user_id, grant_id),
    constraint grant_is_of_a_user
        foreign key (user_id) references identity.user on delete cascade,
    constraint grant_is_to_a_client
        foreign key (client_id) references oauth.client on delete cascade,
    constraint grant_is_to_a_client_or_for_an_api_token check ((client_id is null) <> (name is null)),
    constraint grant_name_is_short check (length(name) between 1 and 100),
    constraint grant_allows_something check (cardinality(scopes) > 0)
);
create index grant_by_client on oauth.grant (client_id) where client_id is not null;

create table oauth.authorization_code (
    user_id        uuid        not null,
    code_hash      bytea       not null,
    grant_id       uuid        not null,
    redirect_uri   text        not null,
    code_challenge text        not null,
    issued_at      timestamptz not null default now(),
    expires_at     timestamptz not null,
    spent_at       timestamptz,
    constraint authorization_code_pkey primary key (user_id, code_hash),
    constraint authorization_code_is_of_a_grant
        foreign key (user_id, grant_id) references oauth.grant on delete cascade
);
create index authorization_code_by_grant on oauth.authorization_code (user_id, grant_id);

create table oauth.refresh_token (
    user_id    uuid        not null,
    token_hash bytea       not null,
    grant_id   uuid        not null,
    issued_at  timestamptz not null default now(),
    expires_at timestamptz not null,
    rotated_at timestamptz,
    constraint refresh_token_pkey primary key (user_id, token_hash),
    constraint refresh_token_is_of_a_grant
        foreign key (user_id, grant_id) references oauth.grant on delete cascade
);
create index refresh_token_by_grant on oauth.refresh_token (user_id, grant_id);
create unique index refresh_token_is_one_per_grant
    on oauth.refresh_token (user_id, grant_id) where rotated_at is null;

-- Access tokens of applications, which expire, and API tokens, which expire where their owner said so.
create table oauth.access_token (
    user_id      uuid        not null,
    token_hash   bytea       not null,
    grant_id     uuid        not null,
    scopes       text[]      not null,
    last_four    text        not null,
    issued_at    timestamptz not null default now(),
    expires_at   timestamptz,
    revoked_at   timestamptz,
    last_used_at timestamptz,
    constraint access_token_pkey primary key (user_id, token_hash),
    constraint access_token_is_of_a_grant
        foreign key (user_id, grant_id) references oauth.grant on delete cascade,
    constraint access_token_last_four_are_four check (length(last_four) = 4)
);
create index access_token_by_grant on oauth.access_token (user_id, grant_id);

-- The one definition of a token that opens something.
create view oauth.live_access_token as
select access_token.user_id,
       access_token.token_hash,
       access_token.grant_id,
       access_token.scopes,
       oauth.grant.resource
  from oauth.access_token
  join oauth.grant using (user_id, grant_id)
 where access_token.revoked_at is null
   and (access_token.expires_at is null or access_token.expires_at > now())
   and oauth.grant.revoked_at is null;
