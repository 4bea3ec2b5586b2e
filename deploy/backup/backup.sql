-- name: keep_snapshot
-- The snapshot that pg_dump uses too, for as long as this transaction runs.
select pg_export_snapshot()

-- name: server_version
-- The version of the server: in words, and its major number.
select split_part(current_setting('server_version'), ' ', 1) as version,
       current_setting('server_version_num')::integer / 10000 as major

-- name: has_schema
-- Whether the service is in this database, and the rights of its owner can be had.
select to_regclass('svc.schema_version') is not null

-- name: schema_version
-- The version of the schema in this database.
select version
  from svc.schema_version

-- name: become_owner
-- The owner sees all rows: row-level security is not forced.
set local role svc_owner

-- name: own_schemas
-- The schemas of the service in this database.
select nspname
  from pg_catalog.pg_namespace
 where nspowner = (
           select oid
             from pg_catalog.pg_roles
            where rolname = 'svc_owner'
       )
 order by nspname

-- name: wait_for_dump
-- This transaction is idle for as long as pg_dump reads, whatever limit the login has.
set local idle_in_transaction_session_timeout = 0
