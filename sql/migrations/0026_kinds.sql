-- Usable from version 20 on.
-- Older code leaves the new column null.

-- The kind of data that a member's format brings, such as music; null for a member of no format. Only the format
-- knows it, and to look into the tables of all kinds would take the scopes of all.
alter table profile.import_part add column kind text;
