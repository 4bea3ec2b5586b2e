-- Row-level security. May run again at any time.

-- Closes a table of user data to every row but those of the open session's user, for every role that
-- serves requests, and lets the reader read it. The owner of the tables is nobody's runtime role, so
-- the policies are enabled and not forced.
create or replace function svc.secure_user_table(p_table regclass)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('alter table %s enable row level security', p_table);
    execute format('drop policy if exists own_rows on %s', p_table);
    execute format(
        'create policy own_rows on %s to svc_reader, svc_ingester, svc_worker '
        'using (user_id = (select svc.session_user_id())) '
        'with check (user_id = (select svc.session_user_id()))',
        p_table
    );
    execute format('grant select on %s to svc_reader', p_table);
end
$$;

select svc.secure_user_table('activity.device');
select svc.secure_user_table('activity.app_session');
select svc.secure_user_table('identity.user');

-- The authorization server looks accounts up before anybody is signed in.
drop policy if exists accounts on identity.user;
create policy accounts on identity.user to svc_authserver using (true) with check (true);
