-- Usable from version 20 on.
-- Older code leaves the new columns as they are, and lists retired devices too.

-- What a person calls a device, where that differs from the name by which trackers know it; and when they retired it.
alter table activity.device
    add column display_name text,
    add column retired_at timestamptz(3),
    add constraint device_display_name_is_short check (length(display_name) between 1 and 100),
    add constraint device_retirement_year_has_four_digits check (
        retired_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    );
