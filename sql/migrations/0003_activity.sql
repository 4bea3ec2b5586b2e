-- What trackers measured, and what the service knows about categories.

create schema reference;

-- The categories that come with the service and how productive time in them counts, from -2 to 2.
create table reference.category (
    category text     not null,
    score    smallint not null,
    constraint category_pkey primary key (category),
    constraint category_score_is_one_of_five check (score between -2 and 2)
);

insert into reference.category (category, score)
values ('Development', 2),
       ('Writing', 2),
       ('Design', 2),
       ('Reference', 1),
       ('Business', 1),
       ('Communication', 0),
       ('Utilities', 0),
       ('Uncategorized', 0),
       ('Shopping', -1),
       ('News', -1),
       ('Entertainment', -2),
       ('Social', -2),
       ('Games', -2);

create schema activity;

create table activity.device (
    user_id       uuid        not null,
    device_id     uuid        not null default gen_random_uuid(),
    name          text        not null,
    platform      text,
    first_seen_at timestamptz not null default now(),
    constraint device_pkey primary key (user_id, device_id),
    constraint device_name_is_unique unique (user_id, name),
    constraint device_is_of_a_user
        foreign key (user_id) references identity.user on delete cascade,
    constraint device_name_is_short check (length(name) between 1 and 128)
);

-- One stretch in which an application had the focus on one device, exactly as its tracker sent it
-- first. Overlaps are kept; reads resolve them.
create table activity.app_session (
    user_id         uuid           not null,
    idempotency_key text           not null,
    app_session_id  uuid           not null default gen_random_uuid(),
    device_id       uuid           not null,
    started_at      timestamptz(3) not null,
    ended_at        timestamptz(3) not null,
    idle            boolean        not null default false,
    app             text           not null,
    title           text,
    url             text,
    domain          text,
    category        text,
    utc_offset      text,
    source          text,
    metadata        json,
    received_at     timestamptz    not null default now(),
    constraint app_session_pkey primary key (user_id, idempotency_key),
    constraint app_session_is_of_a_device
        foreign key (user_id, device_id) references activity.device on delete cascade,
    constraint app_session_ends_after_its_start check (ended_at >= started_at),
    constraint app_session_lasts_a_day_at_most check (ended_at - started_at <= interval '24 hours'),
    constraint app_session_starts_in_our_time check (started_at >= '2000-01-01 00:00:00+00'),
    constraint app_session_key_is_short check (length(idempotency_key) between 1 and 200),
    constraint app_session_app_is_short check (length(app) between 1 and 255),
    constraint app_session_title_is_short check (length(title) <= 1024),
    constraint app_session_url_is_short check (length(url) <= 2048),
    constraint app_session_category_is_short check (length(category) <= 64),
    constraint app_session_source_is_short check (length(source) <= 128)
);
create index app_session_by_start on activity.app_session (user_id, started_at, app_session_id);
