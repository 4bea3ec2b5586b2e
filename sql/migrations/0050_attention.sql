-- Usable from version 20 on.
-- Older code leaves the new tables empty. Its jobs renew timelines and do not touch these tables: what was made from
-- other timelines than those of today is not used.

-- When the timeline of a day was computed. A timeline is never changed, only computed again.
alter table activity.app_timeline add column computed_at timestamptz not null default now();

-- Totals of switches and detours in a span of days in UTC: a month, or a third of one. Made of the
-- timelines of its days (resourceserver/timeline/kept.sql), and used only while all of these are as they were.
-- Times are in milliseconds since 1970.
create table activity.attention (
    user_id          uuid          not null,
    first            date          not null,
    last             date          not null,
    -- The days whose timelines it was made of. They begin before the span, and end after it, where no pause of more
    -- than five minutes lies at its edge.
    read_first       date          not null,
    read_last        date          not null,
    -- When each of these timelines was computed, in order.
    read_computed_at timestamptz[] not null,
    -- The labels of these timelines, in order.
    labels           bigint[]      not null,
    tracked_ms       bigint        not null,
    -- Switches by the applications before and after, each of which one of its labels stands for: the number of each
    -- pair, the sum of their times before, and these in order. `switch_last` is the position of a pair's last time.
    switch_from      bigint[]      not null,
    switch_to        bigint[]      not null,
    switch_count     integer[]     not null,
    switch_ms        bigint[]      not null,
    switch_last      integer[]     not null,
    switch_before    bigint[]      not null,
    -- The times before of all switches in order.
    before           bigint[]      not null,
    -- Detours by application and category, which one label stands for: their number, that of those with a length, and
    -- the sum of the lengths and these in order. `detour_last` is the position of the last one.
    detour_label     bigint[]      not null default '{}',
    detour_count     integer[]     not null default '{}',
    detour_returned  integer[]     not null default '{}',
    detour_ms        bigint[]      not null default '{}',
    detour_last      integer[]     not null default '{}',
    detour_away      bigint[]      not null default '{}',
    -- The lengths of all detours in order.
    away             bigint[]      not null default '{}',
    -- A digest of what categories were decided by for detours; empty as long as these are missing.
    rules            text          not null default '',
    constraint attention_pkey primary key (user_id, first, last),
    constraint attention_year_has_four_digits check (
        first between '0001-01-01' and '9999-12-31'
        and last between '0001-01-01' and '9999-12-31'
        and read_first between '0001-01-01' and '9999-12-31'
        and read_last between '0001-01-01' and '9999-12-31'
    )
);

-- People of whom spans may be missing or out of date. Whatever changes their categories or renews timelines sets this
-- mark in its transaction; the job removes it when nothing is left to be made.
create table activity.attention_due (
    user_id   uuid        not null,
    marked_at timestamptz not null default now(),
    constraint attention_due_pkey primary key (user_id),
    constraint attention_due_year_has_four_digits check (
        marked_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    )
);

-- One row for each person: the job makes the spans later, one person after the other.
insert into activity.attention_due (user_id)
select user_id
  from identity.user;
