-- Rights that the roles of the servers lose on the embedded server, in the whole cluster. It runs as the
-- superuser in the database `postgres`, after roles.sql, and may run again at any time.

-- The roles work in one database. A superuser connects to the others without this right.
do $$
declare
    place text;
begin
    foreach place in array array['postgres', 'template1'] loop
        if has_database_privilege('public', place, 'connect') then
            execute format('revoke connect on database %I from public', place);
        end if;
    end loop;
end
$$;

-- The most that the sorts and hashes of one session may write to the disk at a time.
alter role svc_authserver set temp_file_limit = '256MB';
alter role svc_reader set temp_file_limit = '1GB';
alter role svc_ingester set temp_file_limit = '1GB';
alter role svc_importer set temp_file_limit = '1GB';
alter role svc_worker set temp_file_limit = '2GB';
