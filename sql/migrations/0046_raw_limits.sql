-- Usable from version 20 on.
-- Which sessions of a person have been removed because of their age (sql/functions/retention.sql). Older code does not
-- know of these tables: SVC_KEEP_RAW_YEARS is for a deployment whose processes all run this version.

-- Until when sessions of a person are removed, or about to be. Both are first days of months, in UTC.
create table activity.raw_limit (
    user_id        uuid        not null,
    -- Sessions that begin before this day are not accepted any more.
    closed_before  date        not null,
    closed_at      timestamptz not null default now(),
    -- Sessions that end before this day have been removed, null while none has been.
    removed_before date,
    constraint raw_limit_pkey primary key (user_id),
    constraint raw_limit_closes_before_it_removes check (removed_before <= closed_before),
    constraint raw_limit_year_has_four_digits check (
        least(closed_before, removed_before) >= '0001-01-01'
        and greatest(closed_before, removed_before) <= '9999-12-31'
        and closed_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    )
);

-- What the removed sessions of a day in UTC said beyond rollups, which leave out idle ones: that something was reported.
create table activity.removed_day (
    user_id         uuid           not null,
    date            date           not null,
    app_sessions    integer        not null,
    coding_sessions integer        not null,
    -- Where the first session of each kind began, and the last one.
    first_app_at    timestamptz(3),
    last_app_at     timestamptz(3),
    first_coding_at timestamptz(3),
    last_coding_at  timestamptz(3),
    -- The quarters of an hour in which any session was, and those in which one was that is not idle. Sessions belong
    -- to the day on which they began, so the last quarter may be on the next day.
    reported        tstzmultirange not null,
    active          tstzmultirange not null,
    constraint removed_day_pkey primary key (user_id, date),
    constraint removed_day_counts_up check (app_sessions >= 0 and coding_sessions >= 0),
    constraint removed_day_year_has_four_digits check (
        date between '2000-01-01' and '9999-12-31'
        and first_app_at between '2000-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
        and last_app_at between '2000-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
        and first_coding_at between '2000-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
        and last_coding_at between '2000-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    )
);
