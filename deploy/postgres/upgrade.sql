-- Gives the functions of PostgreSQL itself their original rights again, before pg_upgrade copies the database: the new
-- version may have another function in place of one, and a right on the old one would end the upgrade. The next
-- migration takes these rights away again (sql/embedded). A server in single-user mode runs this in each database.
do $$
declare
    called regprocedure;
    other text;
begin
    for called in
        select oid::regprocedure
          from pg_catalog.pg_proc
         where pronamespace = 'pg_catalog'::regnamespace
           and proacl is not null
           and not exists (
                   select
                     from pg_catalog.pg_init_privs
                    where objoid = pg_proc.oid
                      and classoid = 'pg_catalog.pg_proc'::regclass
               )
    loop
        execute format('grant execute on function %s to public', called);
        for other in
            select rolname
              from pg_catalog.pg_roles
             where rolname ~ '^svc_'
        loop
            execute format('revoke all on function %s from %I', called, other);
        end loop;
    end loop;
end
$$;

