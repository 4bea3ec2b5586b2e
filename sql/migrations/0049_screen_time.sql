-- Usable from version 20 on.
-- Older code leaves the new table empty, and removes its rows with the account.

-- For how long an application was in use on a phone on a day. Phones count this without saying when on the day it was,
-- so it is no session, and no timeline or total contains it.
create table activity.screen_time (
    user_id        uuid           not null,
    screen_time_id uuid           not null default gen_random_uuid(),
    source         text           not null,
    provider_key   text collate "C" not null,
    import_id      uuid,
    -- A day of the phone.
    date           date           not null,
    device         text           not null,
    -- The id of the application, such as org.mozilla.firefox.
    app            text           not null,
    name           text,
    duration_ms    integer        not null,
    last_used_at   timestamptz(3),
    -- The phone counts the days of a week again each time; the newest count is the right one.
    counted_at     timestamptz(3) not null,
    constraint screen_time_pkey primary key (user_id, screen_time_id),
    constraint screen_time_is_known_once unique (user_id, source, provider_key),
    constraint screen_time_is_within_a_day check (duration_ms between 0 and 90000000),
    constraint screen_time_year_has_four_digits check (
        date between '0001-01-01' and '9999-12-31'
        and counted_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
        and last_used_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    )
);
create index screen_time_by_date on activity.screen_time (user_id, date, screen_time_id);
