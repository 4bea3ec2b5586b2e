-- What somebody's days and months come to, made of raw sessions so that long ranges need not be read from
-- them (resourceserver/rollups.sql). Days and months are those of UTC. Sessions stay the truth: everything
-- here can be made again from them, at any time.

-- Days whose rollups are out of date because something was measured on them, or was removed. Whoever changes
-- what was measured marks its days in the same transaction; so do title rules, which labels depend on. Who
-- reads takes marked days from raw sessions, and months that have one from their days.
--
-- One that is left raw has more sessions side by side than rollups would be worth. Its mark stays until
-- somebody marks it again.
create table activity.rollup_due (
    user_id     uuid        not null,
    date        date        not null,
    marked_at   timestamptz not null default now(),
    is_left_raw boolean     not null default false,
    constraint rollup_due_pkey primary key (user_id, date),
    constraint rollup_due_year_has_four_digits check (
        date between '0001-01-01' and '9999-12-31'
        and marked_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    )
);

insert into activity.rollup_due (user_id, date)
select session.user_id,
       touched.date
  from (
           select user_id,
                  started_at,
                  ended_at
             from activity.app_session
            union all
           select user_id,
                  started_at,
                  ended_at
             from activity.coding_session
       ) as session
 cross join lateral (
           values ((session.started_at at time zone 'UTC')::date),
                  (
                      (
                          greatest(session.ended_at - interval '1 millisecond', session.started_at)
                          at time zone 'UTC'
                      )::date
                  )
       ) as touched (date)
 group by session.user_id,
          touched.date;

-- What a session shows to category rules: its application, domain and own category, and the first title rule
-- that matches it. Categories follow from it when it is read, so that they may change for all history.
create table activity.label (
    user_id    uuid   not null,
    label_id   bigint not null generated always as identity,
    app        text   not null,
    domain     text,
    category   text,
    title_rule uuid,
    constraint label_pkey primary key (user_id, label_id)
);
-- Of a domain its digest, since one may be longer than what an index holds.
create unique index label_is_unique
    on activity.label (user_id, app, md5(domain), category, title_rule)
       nulls not distinct;

-- What sessions of applications come to in each quarter of an hour (grain 1), hour (2), day (3) and month (4).
--
-- A slot has one row for each label, whose session is the nil UUID: for all sessions that lie in it, and all
-- that own none of its time. And it has a row for each session that owns time in it and reaches over one of
-- its edges, so that slots can be added up to ranges: a session's longest time in a range is what its rows add
-- up to. Idle sessions are left out.
create table activity.app_time (
    user_id    uuid           not null,
    grain      smallint       not null,
    starts_at  timestamptz    not null,
    label_id   bigint         not null,
    session_id uuid           not null,
    -- How many sessions start in the slot, and how many began before it and reach into it; of the latter only
    -- those of a range's first slot count. Each is in one of the rows of its label, which need not be its own.
    started    integer        not null,
    continued  integer        not null,
    -- When the one session of the row begins and ends; null in the row of several.
    began_at   timestamptz(3),
    ended_at   timestamptz(3),
    owned_ms   bigint         not null,
    -- The most that one session of the row owns in the slot.
    longest_ms bigint         not null,
    -- The edges of the first and the last segment that are owned, null where none is.
    first_at   timestamptz(3),
    last_at    timestamptz(3),
    constraint app_time_pkey primary key (user_id, grain, starts_at, label_id, session_id),
    constraint app_time_grain_is_a_known_one check (grain between 1 and 4)
);

-- The same of coding sessions, which own time among themselves, by project and language; lines are those of
-- sessions that start in the slot. A session without a language has the name that answers show for it.
create table activity.coding_time (
    user_id       uuid           not null,
    grain         smallint       not null,
    starts_at     timestamptz    not null,
    project       text           not null,
    language      text           not null,
    session_id    uuid           not null,
    started       integer        not null,
    continued     integer        not null,
    began_at      timestamptz(3),
    ended_at      timestamptz(3),
    owned_ms      bigint         not null,
    longest_ms    bigint         not null,
    first_at      timestamptz(3),
    last_at       timestamptz(3),
    lines_added   bigint         not null,
    lines_removed bigint         not null,
    constraint coding_time_pkey
        primary key (user_id, grain, starts_at, project, language, session_id),
    constraint coding_time_grain_is_a_known_one check (grain between 1 and 4)
);

-- The segments of a day in which applications own the time, in order, and the switches among them. All times
-- are in milliseconds from the day's start. A segment that midnight cuts has its parts in two days.
create table activity.app_timeline (
    user_id       uuid      not null,
    date          date      not null,
    labels        bigint[]  not null,
    starts        integer[] not null,
    ends          integer[] not null,
    -- The sessions that own the first and the last segment.
    first_session uuid      not null,
    last_session  uuid      not null,
    -- Whether no pause of more than five minutes lies in the day, the time from midnight to the first segment
    -- and from the last one to midnight included.
    is_unbroken   boolean   not null,
    -- All switches but the day's first and last one, so that nothing outside the day can change them: when,
    -- from the label of the longest segment of the run before to that of the run that begins, and what the
    -- one before owned.
    switch_at     integer[] not null,
    switch_from   bigint[]  not null,
    switch_to     bigint[]  not null,
    switch_before bigint[]  not null,
    constraint app_timeline_pkey primary key (user_id, date)
);

-- It takes milliseconds now (formats.sql), which makes it another function.
drop function if exists svc.focus_streaks(timestamptz[], timestamptz[], integer[]);

-- The newest sessions of each application, without looking through those of all others.
create index app_session_by_app
    on activity.app_session (user_id, app, started_at, app_session_id)
 where not idle;
