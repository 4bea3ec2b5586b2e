-- Rights that the roles of the servers lose on the embedded server. It runs as the superuser in the database
-- of the service, and may run again at any time. An injected statement could otherwise
--
--   set_config                 lift its own time limit, which a part of a query can do by this function alone
--   pg_advisory_lock, ...      keep locks beyond its transaction, or take those of jobs and migrations
--   lo_...                     write to the disk without any table
--   pg_logical_emit_message    write to the disk without any table
--   pg_terminate_backend, ...  end statements and connections of the same role
--
-- Servers use some of them through functions of the owner that do nothing else (session.sql,
-- functions/rollups.sql, functions/categories.sql). `set local`, `alter function ... set` and `discard` do not
-- call these functions.
do $$
declare
    called regprocedure;
begin
    for called in
        select oid::regprocedure
          from pg_catalog.pg_proc
         where pronamespace = 'pg_catalog'::regnamespace
           and (
                   proname in (
                       'set_config',
                       'pg_logical_emit_message',
                       'pg_terminate_backend',
                       'pg_cancel_backend',
                       'loread',
                       'lowrite'
                   )
                or proname ~ '^(pg_(try_)?advisory_|lo_)'
               )
           and has_function_privilege('public', oid, 'execute')
    loop
        execute format('revoke execute on function %s from public', called);
    end loop;

    -- The owner's functions, and the worker, which does one person's jobs in one process at a time.
    for called in
        select oid::regprocedure
          from pg_catalog.pg_proc
         where pronamespace = 'pg_catalog'::regnamespace
           and proname in ('pg_advisory_xact_lock', 'pg_try_advisory_xact_lock')
           and not has_function_privilege('svc_worker', oid, 'execute')
    loop
        execute format('grant execute on function %s to svc_owner, svc_worker', called);
    end loop;
    if not has_function_privilege('svc_owner', 'set_config(text, text, boolean)', 'execute') then
        grant execute on function set_config(text, text, boolean) to svc_owner;
    end if;
end
$$;
