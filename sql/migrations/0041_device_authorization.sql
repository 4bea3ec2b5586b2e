-- Usable from version 20 on.
-- Older code would answer the request of a device as one of a browser, so SVC_DEVICE_AUTHORIZATION should be switched on
-- only when all servers run this version.

-- Requests of devices without a browser (RFC 8628). A request waits for a person, until it is denied, gets a grant, or
-- expires. Its two codes are stored as hashes; `interval_s` is how long the device must wait between two polls.
create table oauth.device_authorization (
    device_code_hash bytea       not null,
    user_code_hash   bytea       not null,
    client_id        text        not null,
    scopes           text[]      not null,
    resource         text,
    created_at       timestamptz not null default now(),
    expires_at       timestamptz not null,
    interval_s       integer     not null,
    polled_at        timestamptz,
    denied_at        timestamptz,
    user_id          uuid,
    grant_id         uuid,
    spent_at         timestamptz,
    constraint device_authorization_pkey primary key (device_code_hash),
    constraint device_authorization_user_code_is_unique unique (user_code_hash),
    constraint device_authorization_is_of_a_client
        foreign key (client_id) references oauth.client on delete cascade,
    constraint device_authorization_has_a_grant
        foreign key (user_id, grant_id) references oauth.grant on delete cascade,
    constraint device_authorization_asks_for_something check (cardinality(scopes) > 0),
    constraint device_authorization_is_allowed_or_denied check (denied_at is null or grant_id is null),
    constraint device_authorization_is_spent_with_a_grant check (spent_at is null or grant_id is not null)
);
create index device_authorization_by_client on oauth.device_authorization (client_id);
create index device_authorization_by_grant
    on oauth.device_authorization (user_id, grant_id) where grant_id is not null;
create index device_authorization_by_expiry on oauth.device_authorization (expires_at);

-- An authorization request of a device has no redirect URI and no code challenge: both are empty. One browser at a time
-- decides about a device.
alter table oauth.authorization_request
    add column device_code_hash bytea,
    add constraint authorization_request_is_of_a_device
        foreign key (device_code_hash) references oauth.device_authorization on delete cascade;
create unique index authorization_request_is_one_of_a_device
    on oauth.authorization_request (device_code_hash) where device_code_hash is not null;
