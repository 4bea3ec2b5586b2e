-- Usable from version 20 on.
-- Newer code writes this column. Older code leaves it null, and who joins starts in UTC.

-- The zone in which the days of a new account begin, if this sign-in creates one.
alter table identity.provider_sign_in
    add column timezone text,
    add constraint provider_sign_in_timezone_is_short check (length(timezone) between 1 and 64);
