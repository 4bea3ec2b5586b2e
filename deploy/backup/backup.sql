-- name: keep_snapshot
-- The snapshot that pg_dump uses too, for as long as this transaction runs.
select pg_export_snapshot()

-- name: server_version
-- The version of the server: in words, and its major number.
select split_part(current_setting('server_version'), ' ', 1) as version,
       current_setting('server_version_num')::integer / 10000 as major

-- name: has_schema
-- Whether the service is in this database.
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

-- name: present_object
-- An object of which a database that is to be restored must have none; no row: it is empty. What belongs to an
-- extension does not count.
select format('%I.%I', nspname, name) as name
  from (
           select oid, relnamespace as namespace, relname as name, 'pg_class'::regclass as place
             from pg_catalog.pg_class
            union all
           select oid, pronamespace, proname, 'pg_proc'::regclass
             from pg_catalog.pg_proc
            union all
           select oid, oid, nspname, 'pg_namespace'::regclass
             from pg_catalog.pg_namespace
            where nspowner = (
                      select oid
                        from pg_catalog.pg_roles
                       where rolname = 'svc_owner'
                  )
       ) as present
  join pg_catalog.pg_namespace on pg_namespace.oid = namespace
 where nspname not in ('pg_catalog', 'information_schema')
   and nspname !~ '^pg_(toast|temp)'
   and not exists (
           select
             from pg_catalog.pg_depend
            where classid = place
              and objid = present.oid
              and deptype = 'e'
       )
 order by place = 'pg_namespace'::regclass, nspname = 'public', name
 limit 1

-- name: run_grants_again
-- Has the next migration run the file of all grants again: a dump of schemas has no rights that concern the database.
delete from svc.applied_file
 where name = 'grants.sql'

-- name: key_ids
-- How many secrets of connections are sealed to each key.
select key_id,
       count(*) as secrets
  from profile.connection_secret
 group by key_id
 order by key_id

-- name: wait_for_dump
-- This transaction is idle for as long as pg_dump reads, whatever limit the login has.
set local idle_in_transaction_session_timeout = 0

-- name: analyze
-- Collects the statistics that plans depend on: a restored table has none.
analyze
