-- name: lock_cluster
-- Held in the database `postgres` while roles are made: advisory locks belong to one database, roles to
-- all of them.
select pg_advisory_lock(7382041)

-- name: unlock_cluster
-- Others may make roles now.
select pg_advisory_unlock(7382041)

-- name: lock_schema
-- Held in our own database while its schema is brought up to date; the session's end releases it.
select pg_advisory_lock(7382042)

-- name: admit_owner
-- Lets the owner make schemas in this database. The login is the database's owner or a superuser.
do $$
begin
    execute format('grant create on database %I to svc_owner', current_database());
end
$$

-- name: become_owner
-- Whatever is made from here on belongs to the owner.
set role svc_owner

-- name: prepare_ledger
-- The list of what has been applied here, and in which form.
do $$
begin
    create schema if not exists svc;
    create table if not exists svc.applied_file (
        name       text        not null,
        digest     text        not null,
        applied_at timestamptz not null default now(),
        constraint applied_file_pkey primary key (name)
    );
end
$$

-- name: applied_files
-- What has been applied to this database.
select name,
       digest
  from svc.applied_file

-- name: record_file
-- Notes that a file has been applied in this form.
insert into svc.applied_file (name, digest)
values (%(name)s, %(digest)s)
    on conflict (name) do update
   set digest = excluded.digest,
       applied_at = now()

-- name: server_version
-- The server's version as a number: 150000 and up is PostgreSQL 15.
select current_setting('server_version_num')::integer as version
