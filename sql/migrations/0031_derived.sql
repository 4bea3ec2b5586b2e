-- Usable from version 20 on.
-- Older code leaves the new columns at their defaults and marks no days. Its points get their zones when their days are
-- marked next.

-- The IANA name of the time zone at the point. Null until it has been looked up.
alter table location.point add column timezone text;

-- Whether the source did not say the offset of local time, so that it follows from where the person was.
alter table health.sleep add column is_offset_derived boolean not null default false;

-- Days (of UTC) on which points, visits or sleeps came, changed or were removed, so that visits and offsets have to be
-- derived again (resourceserver/derived).
create table location.derivation_due (
    user_id   uuid        not null,
    date      date        not null,
    marked_at timestamptz not null default now(),
    constraint derivation_due_pkey primary key (user_id, date),
    constraint derivation_due_year_has_four_digits check (
        date between '0001-01-01' and '9999-12-31'
        and marked_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    )
);

insert into location.derivation_due (user_id, date)
select distinct user_id,
       (recorded_at at time zone 'UTC')::date
  from location.point
 where import_id is not null;
