-- Usable from version 20 on.
-- After a colon, the chosen format of an upload may have the name of a profile in the file: netflix:Alice. An older
-- worker refuses such an upload with a problem, and it can be brought again.
alter table profile.upload drop constraint upload_format_is_a_name;
alter table profile.upload add constraint upload_format_is_a_name check (
    format ~ '^[a-z][a-z0-9_]{0,63}(:.{1,100})?$'
);
