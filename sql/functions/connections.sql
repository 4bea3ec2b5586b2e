-- Connections: how they begin, what opens them, and how they end. May run again at any time.
--
--     put_connection ──► open_receiver, a request with its key ──► note_delivery ─┐
--                    └─► the worker's pull, as a job and an import ───────────────┴─► end_connection
--
-- What a connection brings belongs to its import, which runs as long as it does. An application's key is the key of
-- this import too: so the policies of imports hold for what a receiver writes, and look the key up again.

-- The state of a connection, from the columns of its row: the first that applies of the picture in its migration.
create or replace function svc.connection_state(
    p_stopped_at     timestamptz,
    p_paused_at      timestamptz,
    p_is_refused     boolean,
    p_problem        text,
    p_last_record_at timestamptz
)
returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
return case
           when p_stopped_at is not null then 'stopped'
           when p_paused_at is not null then 'paused'
           when p_is_refused then 'refused'
           when p_problem is not null then 'failing'
           when p_last_record_at is not null then 'live'
           else 'waiting'
       end;

-- Begins a connection, with the hash of its key where an application sends, and with sealed secrets where the worker
-- pulls. Returns null, or 'too_many' if the person has 50 that are not stopped.
-- It checks no session, so only the owner of the database may call it.
create or replace function svc.put_connection(
    p_user_id       uuid,
    p_connection_id uuid,
    p_kind          text,
    p_data          text,
    p_name          text,
    p_settings      jsonb,
    p_key_hash      bytea,
    p_scopes        text[],
    p_fields        text[],
    p_key_ids       text[],
    p_sealed        bytea[]
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    begun uuid;
begin
    -- Two connections of a person are not counted at once.
    perform from identity.user as person
      where person.user_id = p_user_id
        for no key update;
    if (
        select count(*) >= 50
          from profile.connection
         where connection.user_id = p_user_id
           and connection.stopped_at is null
    ) then
        return 'too_many';
    end if;
    insert into profile.import (user_id, file_name, file_size, digest, key_hash, connection_id)
    values (p_user_id, p_name, 0, sha256(uuid_send(p_connection_id)), p_key_hash, p_connection_id)
    returning import_id into begun;
    insert into profile.connection (user_id, connection_id, kind, data, name, settings, import_id, next_pull_at)
    values (
        p_user_id,
        p_connection_id,
        p_kind,
        p_data,
        p_name,
        p_settings,
        begun,
        case when p_key_hash is null then now() end
    );
    if p_key_hash is null then
        perform svc.put_connection_secrets(p_user_id, p_connection_id, p_fields, p_key_ids, p_sealed);
    else
        insert into profile.integration_key (key_hash, user_id, connection_id, scopes)
        values (p_key_hash, p_user_id, p_connection_id, p_scopes);
    end if;
    return null;
end
$$;

-- Stores sealed secrets of a connection that the worker pulls, in place of earlier ones, and has it pulled now, or when
-- its service permits it again (turn.sql). Its problem lasts until a pull succeeds. Returns whether there is such a
-- connection. It checks no session, so only the owner of the database may call it.
create or replace function svc.put_connection_secrets(
    p_user_id       uuid,
    p_connection_id uuid,
    p_fields        text[],
    p_key_ids       text[],
    p_sealed        bytea[]
)
returns boolean
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    update profile.connection
       set next_pull_at = greatest(now(), (connection.state ->> 'retry_at')::timestamptz)
     where connection.user_id = p_user_id
       and connection.connection_id = p_connection_id
       and connection.next_pull_at is not null
       and connection.stopped_at is null;
    if not found then
        return false;
    end if;
    insert into profile.connection_secret (user_id, connection_id, field, key_id, sealed)
    select p_user_id,
           p_connection_id,
           secret.field,
           secret.key_id,
           secret.sealed
      from unnest(p_fields, p_key_ids, p_sealed) as secret (field, key_id, sealed)
        on conflict (user_id, connection_id, field) do update
       set key_id = excluded.key_id,
           sealed = excluded.sealed,
           sealed_at = now();
    perform svc.make_due(p_user_id, 'pull');
    return true;
end
$$;

-- The same as svc.put_connection for the person of a sign-in session; 'signed_out' if it is not fresh.
create or replace function svc.add_connection(
    p_user_id       uuid,
    p_session_hash  bytea,
    p_connection_id uuid,
    p_kind          text,
    p_data          text,
    p_name          text,
    p_settings      jsonb,
    p_key_hash      bytea,
    p_scopes        text[],
    p_fields        text[],
    p_key_ids       text[],
    p_sealed        bytea[]
)
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.is_freshly_signed_in(p_user_id, p_session_hash) then
        return 'signed_out';
    end if;
    return svc.put_connection(
        p_user_id,
        p_connection_id,
        p_kind,
        p_data,
        p_name,
        p_settings,
        p_key_hash,
        p_scopes,
        p_fields,
        p_key_ids,
        p_sealed
    );
end
$$;

-- The connections of the signed-in person, or one of them, newest first and stopped ones last; no row: none, or the
-- session is not valid. Until `retry_at` the service from which the worker pulls wants to be left alone.
drop function if exists svc.connections(uuid, bytea, uuid);
create or replace function svc.connections(
    p_user_id       uuid,
    p_session_hash  bytea,
    p_connection_id uuid default null
)
returns table (
    connection_id   uuid,
    kind            text,
    data            text,
    name            text,
    state           text,
    settings        jsonb,
    problem         text,
    failing_since   timestamptz,
    created_at      timestamptz,
    first_record_at timestamptz,
    last_record_at  timestamptz,
    record_count    bigint,
    refused         bigint,
    refused_reason  text,
    scopes          text[],
    key_created_at  timestamptz,
    key_used_at     timestamptz,
    last_pull_at    timestamptz,
    next_pull_at    timestamptz,
    retry_at        timestamptz,
    paused_at       timestamptz,
    stopped_at      timestamptz,
    is_removed      boolean
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
begin atomic
    select connection.connection_id,
           connection.kind,
           connection.data,
           connection.name,
           svc.connection_state(
               connection.stopped_at,
               connection.paused_at,
               connection.is_refused,
               connection.problem,
               connection.last_record_at
           ),
           connection.settings,
           connection.problem,
           connection.failing_since,
           connection.created_at,
           connection.first_record_at,
           connection.last_record_at,
           connection.record_count,
           (
               select coalesce(sum(part.refused), 0)::bigint
                 from profile.import_part as part
                where part.user_id = p_user_id
                  and part.import_id = connection.import_id
           ),
           (
               select refusal.reason
                 from profile.import_refusal as refusal
                where refusal.user_id = p_user_id
                  and refusal.import_id = connection.import_id
                group by refusal.reason
                order by sum(refusal.count) desc,
                         refusal.reason collate "C"
                limit 1
           ),
           coalesce(key.scopes, '{}'),
           key.created_at,
           key.last_used_at,
           connection.last_pull_at,
           connection.next_pull_at,
           (connection.state ->> 'retry_at')::timestamptz,
           connection.paused_at,
           connection.stopped_at,
           import.status = 'undone'
      from profile.connection
      join profile.import
        on import.user_id = p_user_id
       and import.import_id = connection.import_id
      left join profile.integration_key as key
        on key.user_id = p_user_id
       and key.connection_id = connection.connection_id
     where connection.user_id = p_user_id
       and (p_connection_id is null or connection.connection_id = p_connection_id)
       and svc.is_signed_in(p_user_id, p_session_hash)
     order by connection.stopped_at is not null,
              connection.created_at desc,
              connection.connection_id
     limit 200;
end;

-- Gives a connection another key in place of the one that was created at `p_created_at`, so that a form that is sent
-- again replaces nothing; the earlier key opens nothing any more. Returns null; 'signed_out' if the sign-in session is
-- not fresh; 'gone' if there is no such connection or no such key.
create or replace function svc.renew_connection_key(
    p_user_id       uuid,
    p_session_hash  bytea,
    p_connection_id uuid,
    p_key_hash      bytea,
    p_created_at    timestamptz
)
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.is_freshly_signed_in(p_user_id, p_session_hash) then
        return 'signed_out';
    end if;
    -- A delivery with the earlier key holds the row of the import until it is over.
    update profile.import
       set key_hash = p_key_hash
     where import.user_id = p_user_id
       and import.connection_id = p_connection_id
       and import.status = 'running'
       and exists (
               select
                 from profile.integration_key as key
                where key.user_id = p_user_id
                  and key.connection_id = p_connection_id
                  and key.created_at = p_created_at
           );
    if not found then
        return 'gone';
    end if;
    update profile.integration_key as key
       set key_hash = p_key_hash,
           created_at = now(),
           last_used_at = null
     where key.user_id = p_user_id
       and key.connection_id = p_connection_id;
    return null;
end
$$;

-- The same as svc.put_connection_secrets for the person of a sign-in session. Returns null; 'signed_out' if the session
-- is not fresh; 'gone' if there is no such connection.
create or replace function svc.renew_connection_secrets(
    p_user_id       uuid,
    p_session_hash  bytea,
    p_connection_id uuid,
    p_fields        text[],
    p_key_ids       text[],
    p_sealed        bytea[]
)
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.is_freshly_signed_in(p_user_id, p_session_hash) then
        return 'signed_out';
    end if;
    return case
               when not svc.put_connection_secrets(p_user_id, p_connection_id, p_fields, p_key_ids, p_sealed) then 'gone'
           end;
end
$$;

-- Pauses a connection of the signed-in person or continues it. Returns whether there is such a connection. Its next
-- pull stays due when it was: a pause must not shorten the wait that a service has named.
create or replace function svc.pause_connection(
    p_user_id       uuid,
    p_session_hash  bytea,
    p_connection_id uuid,
    p_is_paused     boolean
)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    is_pulled boolean;
begin
    update profile.connection
       set paused_at = case when p_is_paused then coalesce(connection.paused_at, now()) end
     where connection.user_id = p_user_id
       and connection.connection_id = p_connection_id
       and connection.stopped_at is null
       and svc.is_signed_in(p_user_id, p_session_hash)
    returning connection.next_pull_at is not null into is_pulled;
    if is_pulled and not p_is_paused then
        perform svc.make_due(p_user_id, 'pull');
    end if;
    return is_pulled is not null;
end
$$;

-- Replaces the settings of a connection of the signed-in person through which an application sends. Returns whether there
-- is such a connection. Not of one that the worker pulls: with another address, its sealed secrets would be sent there.
create or replace function svc.change_connection_settings(
    p_user_id       uuid,
    p_session_hash  bytea,
    p_connection_id uuid,
    p_settings      jsonb
)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update profile.connection
       set settings = p_settings
     where connection.user_id = p_user_id
       and connection.connection_id = p_connection_id
       and connection.stopped_at is null
       and svc.is_signed_in(p_user_id, p_session_hash)
       and exists (
               select
                 from profile.integration_key as key
                where key.user_id = p_user_id
                  and key.connection_id = p_connection_id
           );
    return found;
end
$$;

-- Lets the worker pull a connection of the signed-in person now, or when its service permits it again (turn.sql). Returns
-- whether it will: there must be such a connection, and the last pull must be a minute old.
create or replace function svc.pull_now(p_user_id uuid, p_session_hash bytea, p_connection_id uuid)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update profile.connection
       set next_pull_at = greatest(now(), (connection.state ->> 'retry_at')::timestamptz)
     where connection.user_id = p_user_id
       and connection.connection_id = p_connection_id
       and connection.next_pull_at is not null
       and connection.paused_at is null
       and connection.stopped_at is null
       and coalesce(connection.last_pull_at < now() - interval '1 minute', true)
       and svc.is_signed_in(p_user_id, p_session_hash);
    if found then
        perform svc.make_due(p_user_id, 'pull');
    end if;
    return found;
end
$$;

-- Ends a connection: its key and its secrets are deleted, and with `p_is_removed` the worker removes what it brought.
-- One that has ended can still be removed. Returns whether there was anything to end or to remove.
-- It checks no session, so only the owner of the database may call it.
create or replace function svc.stop_connection(p_user_id uuid, p_connection_id uuid, p_is_removed boolean)
returns boolean
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    -- A delivery holds the row of the import until it is over, so that nothing is written after this.
    perform from profile.import
      where import.user_id = p_user_id
        and import.connection_id = p_connection_id
        and import.status <> 'undone'
        and (import.status = 'running' or p_is_removed)
        for update;
    if not found then
        return false;
    end if;
    update profile.import
       set status = case when p_is_removed then 'undone' else 'done' end,
           key_hash = null,
           finished_at = case when not p_is_removed then now() end
     where import.user_id = p_user_id
       and import.connection_id = p_connection_id;
    update profile.connection
       set stopped_at = coalesce(connection.stopped_at, now()),
           next_pull_at = null,
           state = '{}'
     where connection.user_id = p_user_id
       and connection.connection_id = p_connection_id;
    delete from profile.integration_key as key
     where key.user_id = p_user_id
       and key.connection_id = p_connection_id;
    delete from profile.connection_secret as secret
     where secret.user_id = p_user_id
       and secret.connection_id = p_connection_id;
    if p_is_removed then
        perform svc.make_due(p_user_id, 'undo');
    end if;
    return true;
end
$$;

-- The same for the person of a sign-in session. Returns null; 'signed_out' if the session is not fresh; 'gone' if there
-- was nothing to end or to remove.
create or replace function svc.end_connection(
    p_user_id       uuid,
    p_session_hash  bytea,
    p_connection_id uuid,
    p_is_removed    boolean
)
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.is_freshly_signed_in(p_user_id, p_session_hash) then
        return 'signed_out';
    end if;
    return case when not svc.stop_connection(p_user_id, p_connection_id, p_is_removed) then 'gone' end;
end
$$;

-- Opens the session of the connection that has a key, for a request of its application, and returns what the request
-- needs to know. Raises 57SV1 and 57SV2 if the version of the code does not fit the schema (versions.sql), and SV401 if
-- no connection of this kind has the key. Ending the connection waits until the transaction is over, as with an import
-- (imports.sql). Where an application may read, the session of the connection is also one of a token (session.sql).
-- What was answered with success must survive a crash, so the transaction does not commit like that of an import.
-- Unless `p_opens`, the key is only looked up: without a session and, but once a minute, without a write, so that a
-- look-up waits for nothing, and its commit for no disk.
drop procedure if exists svc.open_receiver(bytea, text, integer, uuid, uuid, uuid, text, jsonb, boolean, text[]);
create or replace procedure svc.open_receiver(
    p_key_hash            bytea,
    p_kind                text,
    p_version             integer,
    p_opens               boolean default true,
    inout p_user_id       uuid    default null,
    inout p_connection_id uuid    default null,
    inout p_import_id     uuid    default null,
    inout p_timezone      text    default null,
    inout p_settings      jsonb   default null,
    inout p_is_paused     boolean default null,
    inout p_scopes        text[]  default null
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    used_at timestamptz;
begin
    perform svc.check_version(p_version);
    select connection.user_id,
           connection.connection_id,
           connection.import_id,
           person.timezone,
           connection.settings,
           connection.paused_at is not null,
           key.scopes,
           key.last_used_at
      into p_user_id,
           p_connection_id,
           p_import_id,
           p_timezone,
           p_settings,
           p_is_paused,
           p_scopes,
           used_at
      from profile.integration_key as key
      join profile.connection using (user_id, connection_id)
      join profile.import
        on import.user_id = connection.user_id
       and import.import_id = connection.import_id
      join identity.user as person on person.user_id = connection.user_id
     where key.key_hash = p_key_hash
       and connection.kind = p_kind
       and import.key_hash = p_key_hash
       and import.status = 'running';
    if p_opens then
        perform from profile.import
          where import.user_id = p_user_id
            and import.import_id = p_import_id
            and import.key_hash = p_key_hash
            and import.status = 'running'
            for share;
    end if;
    if not found then
        raise exception using errcode = 'SV401', message = 'the key is unknown or was replaced';
    end if;
    if used_at is null or used_at < now() - interval '1 minute' then
        -- Another request that notes its use at this moment is as good.
        perform from profile.integration_key as key
          where key.key_hash = p_key_hash
            for no key update skip locked;
        if found then
            update profile.integration_key as key
               set last_used_at = now()
             where key.key_hash = p_key_hash;
        end if;
    end if;
    if not p_opens then
        return;
    end if;
    execute format(
        'set local svc.user_id = %L; set local svc.import_id = %L; set local svc.import_key = %L; '
        'set local svc.version = %L; set local synchronous_commit = on; set local statement_timeout = %L',
        p_user_id, p_import_id, encode(p_key_hash, 'hex'), p_version, svc.lower_limit_ms(20000)
    );
end
$$;

-- Locks the connection of the open session until the transaction is over, so that its deliveries are written one after
-- another.
create or replace function svc.lock_connection()
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from profile.connection
      where connection.user_id = svc.import_user_id()
        and connection.import_id = current_setting('svc.import_id')::uuid
        for no key update;
end
$$;

-- Notes for the connection of the open session that records arrived of which `p_count` are new or changed. Usable ones
-- end a problem, unless there is one with this delivery: `p_problem` is its code. The problem of a pull ends only with
-- a whole pull, since these records may be a part of one that fails.
create or replace function svc.note_delivery(p_count integer, p_is_usable boolean, p_problem text default null)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    update profile.connection
       set record_count = connection.record_count + p_count,
           first_record_at = coalesce(connection.first_record_at, case when p_is_usable then now() end),
           last_record_at = case when p_is_usable then now() else connection.last_record_at end,
           problem = case
                         when p_problem is not null then p_problem
                         when not p_is_usable or connection.next_pull_at is not null then connection.problem
                     end,
           failing_since = case
                               when p_problem is not null then coalesce(connection.failing_since, now())
                               when not p_is_usable or connection.next_pull_at is not null
                               then connection.failing_since
                           end
     where connection.user_id = svc.import_user_id()
       and connection.import_id = current_setting('svc.import_id')::uuid;
end
$$;

-- Opens a session that reads with the key of a connection, as svc.open_token_session does with a token. Raises 57SV1, 57SV2,
-- SV401 if no connection of this kind has the key, and SV403 with the scope if its person has not allowed it.
create or replace procedure svc.open_reading_key(
    p_key_hash            bytea,
    p_kind                text,
    p_scope               text,
    p_version             integer,
    p_limit_ms            integer default null,
    inout p_user_id       uuid    default null,
    inout p_timezone      text    default null,
    inout p_connection_id uuid    default null
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    granted text[];
begin
    perform svc.check_version(p_version);
    select key.user_id,
           person.timezone,
           key.connection_id,
           key.scopes
      into p_user_id,
           p_timezone,
           p_connection_id,
           granted
      from profile.integration_key as key
      join profile.connection using (user_id, connection_id)
      join identity.user as person on person.user_id = key.user_id
     where key.key_hash = p_key_hash
       and connection.kind = p_kind
       and connection.stopped_at is null;
    if not found then
        raise exception using errcode = 'SV401', message = 'the key is unknown or was replaced';
    end if;
    if p_scope <> all (granted) then
        raise exception using errcode = 'SV403', message = p_scope;
    end if;
    execute format(
        'set local svc.user_id = %L; set local svc.token_hash = %L; set local svc.scopes = %L; '
        'set local svc.version = %L',
        p_user_id, encode(p_key_hash, 'hex'), array_to_string(granted, ' '), p_version
    );
    if p_limit_ms is not null then
        execute format('set local statement_timeout = %L', svc.lower_limit_ms(p_limit_ms));
    end if;
end
$$;
