-- Usable from version 20 on.
-- Older code registers no application for devices.

-- Whether the application has registered the grant type of devices. Others get no codes: with the id of a well-known
-- application, a stranger's device would ask for access under its name.
alter table oauth.client add column is_device boolean not null default false;
