-- Usable from version 19 on.
--
-- Which versions of the code fit the schema. A version is the number of the newest migration that the code
-- knows (shared.SCHEMA_VERSION). Each migration from here on states in its first line from which version on the
-- schema can be used after it; `svc migrate` writes that down, and the number of the newest migration once
-- everything has been applied.

create table svc.schema_version (
    is_only     boolean not null default true,
    -- Of the newest migration; 0 until the standing files have been applied too.
    version     integer not null,
    oldest_code integer not null,
    constraint schema_version_pkey primary key (is_only),
    constraint schema_version_is_one_row check (is_only)
);

insert into svc.schema_version (version, oldest_code)
values (0, 19);

-- Servers from before say no version. Nothing of theirs is under way from here on: a session holds a lock on
-- grants to its end, a job one on its marks.
-- The time limit holds for each table, and the first stay locked while the last is waited for: 3 s together.
set local lock_timeout = '1s';
lock table oauth.grant, activity.summary_due, activity.rollup_due in access exclusive mode;
set local lock_timeout = '4s';

-- Until the standing files make these anew, they refuse everybody, also a session or a job of before that waited
-- for this transaction. Class 57 is what such servers answer 503 to.
create or replace function svc.refuse_all()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception using
        errcode = '57SV1',
        message = 'the schema is being changed, and this server may be too old for it';
end
$$;

create or replace procedure svc.open_session(
    p_user_id         uuid,
    p_token_hash      bytea,
    p_scopes          text[],
    p_resources       text[],
    inout p_client_id text default null,
    inout p_grant_id  uuid default null
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.refuse_all();
end
$$;

create or replace procedure svc.open_job(p_user_id uuid)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.refuse_all();
end
$$;

create or replace function svc.session_user_id()
returns uuid
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.refuse_all();
end
$$;

create or replace function svc.job_user_id()
returns uuid
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.refuse_all();
end
$$;

create or replace function svc.note_uses(
    p_user_ids     uuid[],
    p_token_hashes bytea[],
    p_used_at      timestamptz[]
)
returns setof bytea
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.refuse_all();
end
$$;
