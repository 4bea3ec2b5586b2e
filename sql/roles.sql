-- The roles of the service. They belong to the whole cluster, so this file runs under a lock that is
-- taken in the database `postgres`, and may run again at any time.
--
--   svc_owner       owns every schema and runs migrations; it has no login
--   svc_authserver  accounts, sign-in, clients, grants and tokens; no activity data
--   svc_reader      reads one session's user's data, under row-level security
--   svc_ingester    writes the events of trackers, under row-level security
--   svc_importer    writes records from files of other services, one import at a time, under row-level security
--   svc_worker      jobs
--
-- Passwords are set by `svc migrate` for roles whose URL the operator does not give.

do $$
declare
    missing text;
begin
    for missing in
        select role_name
          from unnest(array[
                   'svc_owner', 'svc_authserver', 'svc_reader', 'svc_ingester', 'svc_importer', 'svc_worker'
               ]) as wanted (role_name)
         where not exists (select from pg_catalog.pg_roles where rolname = role_name)
    loop
        execute format(
            'create role %I nosuperuser nocreatedb nocreaterole noreplication nobypassrls %s',
            missing, case missing when 'svc_owner' then 'nologin' else 'login' end
        );
    end loop;
end
$$;

-- The migrating login must be able to become the owner. A superuser can anyway; another login created
-- the role above and so may grant it to itself (PostgreSQL 16 gives it no more than that at first).
do $$
begin
    if not pg_has_role(current_user, 'svc_owner', 'member') or (
        current_setting('server_version_num')::integer >= 160000
        and not pg_has_role(current_user, 'svc_owner', 'set')
    ) then
        execute format('grant svc_owner to %I', current_user);
    end if;
end
$$;

-- Settings that queries rely on, whatever the server's own configuration says.
do $$
declare
    runtime_role text;
begin
    foreach runtime_role in array array[
        'svc_authserver', 'svc_reader', 'svc_ingester', 'svc_importer', 'svc_worker'
    ] loop
        execute format('alter role %I set timezone = ''UTC''', runtime_role);
        execute format('alter role %I set search_path = ''''', runtime_role);
        execute format('alter role %I set lock_timeout = ''5s''', runtime_role);
        execute format('alter role %I set idle_in_transaction_session_timeout = ''15s''', runtime_role);
        -- The version check needs a snapshot that is taken after the wait for a migration (versions.sql).
        execute format('alter role %I set default_transaction_isolation = ''read committed''', runtime_role);
        -- Compiling costs more than it saves for queries of milliseconds.
        execute format('alter role %I set jit = off', runtime_role);
        -- A refused token is an ordinary answer; without this each one writes lines to the log.
        -- Only a superuser may set it, so elsewhere it is left to the operator.
        if (select rolsuper from pg_catalog.pg_roles where rolname = current_user) then
            execute format('alter role %I set log_min_messages = fatal', runtime_role);
        end if;
    end loop;
end
$$;

alter role svc_authserver set statement_timeout = '10s';
alter role svc_reader set statement_timeout = '20s';
alter role svc_ingester set statement_timeout = '20s';
-- A server that vanishes in the middle of a batch without closing its connection would keep its locks: the time
-- limit of a statement does not run while the next one is on its way. The limit is as long as the server itself waits
-- for an answer (resourceserver/api/session.py); before PostgreSQL 17 the network has to notice.
do $$
begin
    if current_setting('server_version_num')::integer >= 170000 then
        alter role svc_ingester set transaction_timeout = '25s';
    end if;
end
$$;
alter role svc_ingester set tcp_keepalives_idle = '5s';
alter role svc_ingester set tcp_keepalives_interval = '2s';
alter role svc_ingester set tcp_keepalives_count = 3;
alter role svc_worker set statement_timeout = '60s';
alter role svc_importer set statement_timeout = '60s';
-- If the server loses transactions in a crash, the import writes them again: each transaction includes the progress of
-- the import.
alter role svc_importer set synchronous_commit = off;
alter role svc_importer set tcp_keepalives_idle = '5s';
alter role svc_importer set tcp_keepalives_interval = '2s';
alter role svc_importer set tcp_keepalives_count = 3;
-- Only a default, which a session can change: the protection is that the role has no right to write.
alter role svc_reader set default_transaction_read_only = on;
-- Queries read one user's rows in the order of an index, and stop when they have enough. For a new table without
-- statistics, the planner would rather collect all rows and sort them: 68 s instead of 3 ms for the edges of a day in
-- a history of a year.
alter role svc_reader set enable_bitmapscan = off;
alter role svc_worker set enable_bitmapscan = off;
-- A query has the same plan for all parameters, the one that was examined when it was written. Otherwise a
-- connection plans each query anew five times, which takes as long as many answers do; and with the known
-- edges of a range, the planner expects so many rows that some queries take three times as long.
-- Jobs send the same statements for one person after the other, and planning them took twice as long as executing them.
alter role svc_reader set plan_cache_mode = force_generic_plan;
alter role svc_worker set plan_cache_mode = force_generic_plan;
