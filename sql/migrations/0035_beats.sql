-- Usable from version 20 on.
-- Older code leaves the new table empty.

-- The beats that editors sent through a connection, as they were received. Coding sessions are derived from them. They
-- are kept for 30 days, in which a beat that comes again is recognised and a session can be divided in another way.
create table activity.beat (
    user_id   uuid           not null,
    import_id uuid           not null,
    beat_at   timestamptz(3) not null,
    -- A digest of what identifies a beat beside its time.
    beat_key  uuid           not null,
    content   json           not null,
    constraint beat_pkey primary key (user_id, import_id, beat_at, beat_key),
    constraint beat_year_has_four_digits check (
        beat_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    )
);
