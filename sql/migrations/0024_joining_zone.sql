-- Usable from version 20 on.
-- Newer code writes this column. Older code leaves it null, so its new accounts have the time zone UTC.

-- The time zone of the new account, if this sign-in creates one.
alter table identity.provider_sign_in
    add column timezone text,
    add constraint provider_sign_in_timezone_is_short check (length(timezone) between 1 and 64);
