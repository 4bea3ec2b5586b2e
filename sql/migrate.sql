-- No role, setting or lock set here outlives its transaction. So a pooler can give the connection to another client
-- afterwards.

-- name: lock_cluster
-- Held in the database `postgres` until the end of the transaction that makes roles: advisory locks belong to one
-- database, roles to all of them.
select pg_advisory_xact_lock(7382041)

-- name: try_lock_schema
-- Whether this transaction alone may change the schema of this database, until it ends.
select pg_try_advisory_xact_lock(7382042)

-- name: lock_schema
-- The same, but waits for other transactions. A migration may take as long as it needs.
do $$
begin
    set local lock_timeout = 0;
    perform pg_advisory_xact_lock(7382042);
end
$$

-- name: limit_waiting
-- Limits how long each statement of the transaction waits for a lock. Readers and writers queue behind it,
-- each on a connection of its server's few, and further requests wait for one of these: they are refused after
-- 1.5 s (shared.database.WAIT_S).
set local lock_timeout = '1s'

-- name: grant_owner_access
-- Lets the owner, and no server, create objects in this database. The login is the database's owner or a superuser.
do $$
declare
    place constant text := current_database();
begin
    if not has_database_privilege('svc_owner', place, 'create') then
        execute format('grant create on database %I to svc_owner', place);
    end if;
    -- No role of a server creates tables, not even temporary ones.
    if has_database_privilege('public', place, 'temporary') then
        execute format('revoke temporary on database %I from public', place);
    end if;
end
$$

-- name: become_owner
-- Objects that are created from here to the end of the transaction belong to the owner.
set local role svc_owner

-- name: prepare_ledger
-- The list of the files that have been applied here, with the digest of each.
do $$
begin
    if to_regclass('svc.applied_file') is null then
        create schema if not exists svc;
        -- So that a server started too early gets "does not exist", not "permission denied".
        grant usage on schema svc to svc_authserver, svc_reader, svc_ingester, svc_importer, svc_worker;
        create table svc.applied_file (
            name       text        not null,
            digest     text        not null,
            applied_at timestamptz not null default now(),
            constraint applied_file_pkey primary key (name)
        );
    end if;
end
$$

-- name: applied_files
-- The files that have been applied to this database.
select name,
       digest
  from svc.applied_file

-- name: record_file
-- Records that a file has been applied in this form.
insert into svc.applied_file (name, digest)
values (%(name)s, %(digest)s)
    on conflict (name) do update
   set digest = excluded.digest,
       applied_at = now()

-- name: oldest_code
-- The oldest version of the code that can use the schema; no row: the migration that records it has not run.
select oldest_code
  from svc.schema_version

-- name: lock_schema_version
-- Waits for all transactions that passed the version check, and blocks new ones until commit.
lock table svc.schema_version in access exclusive mode

-- name: raise_oldest_code
-- Records the oldest version of the code that can use the schema.
update svc.schema_version
   set oldest_code = %(oldest_code)s

-- name: record_version
-- Records the version of the schema, for which all files have been applied.
update svc.schema_version
   set version = %(version)s
 where version <> %(version)s

-- name: store_dashboard
-- Stores the dashboard as an application, or its name and redirect URI where they have changed. No row: nothing has
-- changed.
insert into oauth.client (client_id, client_name, redirect_uris)
select %(client_id)s::text,
       %(client_name)s::text,
       array[%(redirect_uri)s::text]
 where not exists (
           select from oauth.client
            where client_id = %(client_id)s
              and client_name = %(client_name)s
              and redirect_uris = array[%(redirect_uri)s]
       )
    on conflict (client_id) do update
   set client_name = excluded.client_name,
       redirect_uris = excluded.redirect_uris
returning client_id

-- name: is_embedded
-- Whether this is an embedded server, which was started with this setting (deploy/postgres/embedded.py).
select coalesce(current_setting('svc.is_embedded', true), '') = 'on' as is_embedded

-- name: server_version
-- The server's version as a number: 150000 and up is PostgreSQL 15.
select current_setting('server_version_num')::integer as version

-- name: wrong_zones
-- The zones whose days are wrong in this server's time zone data; none on a server with current data. Each is checked
-- by a day that does not begin at an ordinary midnight.
select zone
  from (
           values ('Europe/Berlin', date '2025-10-26', '2025-10-25 22:00:00+00'),
                  ('Australia/Lord_Howe', date '2025-04-06', '2025-04-05 13:00:00+00'),
                  ('Asia/Kathmandu', date '2025-01-01', '2024-12-31 18:15:00+00'),
                  ('America/Sao_Paulo', date '2017-10-15', '2017-10-15 03:00:00+00'),
                  ('America/Havana', date '2025-11-02', '2025-11-02 04:00:00+00'),
                  ('Africa/Cairo', date '2025-04-25', '2025-04-24 22:00:00+00'),
                  ('Pacific/Apia', date '2011-12-30', '2011-12-30 10:00:00+00')
       ) as vector (zone, day, starts_at)
 where not exists (select from pg_catalog.pg_timezone_names where name = zone)
    or svc.day_start(day, zone) <> starts_at::timestamptz
 order by zone
