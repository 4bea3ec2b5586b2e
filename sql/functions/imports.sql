-- The session of one import: opened with its key, read by every policy, ended with the transaction. May run again
-- at any time.

-- Opens the session of a running import for the rest of the transaction. Raises 57SV1 and 57SV2 if the version of the
-- code does not fit the schema (versions.sql), and SV401 if no running import has this key: the import is over, a later
-- run has taken it over, or the account is deleted. Ending an import and undoing it wait until the transaction is over:
-- the transaction of a killed run could otherwise commit its records after they were removed.
-- `set local` and not set_config(), as in session.sql.
create or replace procedure svc.open_import(
    p_user_id   uuid,
    p_import_id uuid,
    p_key_hash  bytea,
    p_version   integer default null
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.check_version(p_version);
    perform from profile.import
      join identity.user as person using (user_id)
     where import.user_id = p_user_id
       and import.import_id = p_import_id
       and import.key_hash = p_key_hash
       and import.status = 'running'
       for share of import;
    if not found then
        raise exception using errcode = 'SV401', message = 'the import is over, or another run has taken it over';
    end if;
    execute format(
        'set local svc.user_id = %L; set local svc.import_id = %L; set local svc.import_key = %L; '
        'set local svc.version = %L',
        p_user_id, p_import_id, encode(p_key_hash, 'hex'), p_version
    );
end
$$;

-- The person of the import whose session is open, else null. The settings alone prove nothing, because a statement can
-- set them; so the key is looked up again here, as session_user_id() does with a token (session.sql). Outside a session
-- a setting is '' or null.
create or replace function svc.import_user_id()
returns uuid
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if nullif(current_setting('svc.import_id', true), '') is null
        or nullif(current_setting('svc.version', true), '') is null
    then
        return null;
    end if;
    return (
        select import.user_id
          from profile.import
          join identity.user as person using (user_id)
         where import.user_id = nullif(current_setting('svc.user_id', true), '')::uuid
           and import.import_id = current_setting('svc.import_id', true)::uuid
           and import.key_hash = decode(nullif(current_setting('svc.import_key', true), ''), 'hex')
           and import.status = 'running'
    );
end
$$;
