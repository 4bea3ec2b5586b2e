-- Usable from version 20 on.
-- Older code that imports does not keep sources and devices from being removed; `svc demo --replace` alone removes them.

-- A foreign key looks up the row that it refers to for each new row, which took a third of the database's time for an
-- import. Imports look up and lock the sources and devices of a batch instead (resourceserver/integrations/imports).
-- svc.unchecked_references (sql/functions/deletion.sql) lists these references.
alter table health.sample drop constraint sample_is_of_a_source;
alter table health.heart_rate drop constraint heart_rate_is_of_a_source;
alter table location.point drop constraint point_is_of_a_device;
