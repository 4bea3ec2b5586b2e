-- The session of one request: opened with a token, read by every policy, ended with the transaction.
--
-- `call svc.open_token_session(...)` is the first of the two statements of a read. Keep them two: folded
-- into one, policies may be evaluated before the session is open, and the answer is silently empty.

create schema if not exists svc;

-- The time limit of a statement in milliseconds, for a requested `p_limit_ms`: at least 1, since 0 would be no limit,
-- and at most the current limit. So a transaction can lower the limit of its role, but neither lift it nor raise it
-- again.
create or replace function svc.lower_limit_ms(p_limit_ms integer)
returns integer
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
    select least(
               greatest(p_limit_ms, 1),
               nullif(
                   extract(epoch from current_setting('statement_timeout')::interval) * 1000,
                   0
               )::integer
           )
$$;

-- Opens the session of a token for the rest of the transaction, and returns the id of the token's client, which API
-- tokens do not have, and that of its grant; and whether the use of the token must be noted at once, because the refresh
-- that issued it can be repeated until then (functions/usage.sql). The error SV403 has that as its detail.
-- Raises 57SV1 and 57SV2 if the server's version does not fit the schema (versions.sql), SV401 for a token
-- that is unknown, revoked, expired or limited to another resource, and SV403, with the first missing scope as its
-- message, for a token that lacks a scope.
-- `p_limit_ms` limits each further statement of the transaction, if it is less than the current limit, which at first
-- is the role's own. A setting of the connection would not do: behind a pooler the next transaction may have another
-- connection. `set local` and not set_config(): a sharded database forwards nothing but SET LOCAL to its nodes.
-- No exception block may enclose it: the settings would end with the subtransaction.
drop procedure if exists svc.open_session(uuid, bytea, text[], text[]);
drop procedure if exists svc.open_session(uuid, bytea, text[], text[], text, uuid);
drop procedure if exists svc.open_session(uuid, bytea, text[], text[], text, uuid, integer);
drop procedure if exists svc.open_session(uuid, bytea, text[], text[], text, uuid, integer, integer, boolean);
create or replace procedure svc.open_token_session(
    p_user_id          uuid,
    p_token_hash       bytea,
    p_scopes           text[],
    p_resources        text[],
    inout p_client_id  text default null,
    inout p_grant_id   uuid default null,
    p_version          integer default null,
    p_limit_ms         integer default null,
    inout p_ends_retry boolean default null
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    present svc.schema_version;
    granted text[];
    missing text;
begin
    -- Every request comes here, so the check of the version is called only where it will raise. This statement
    -- has the snapshot and keeps the lock that the check needs (functions/versions.sql).
    select * into strict present from svc.schema_version;
    if p_version between present.oldest_code and present.version is not true then
        perform svc.check_version(p_version);
    end if;

    select scopes,
           client_id,
           grant_id,
           retry_until > now()
      into granted,
           p_client_id,
           p_grant_id,
           p_ends_retry
      from oauth.live_access_token
     where user_id = p_user_id
       and token_hash = p_token_hash
       and (resource is null or resource = any (p_resources));
    if not found then
        raise exception using errcode = 'SV401', message = 'the token is unknown, revoked or expired';
    end if;

    if p_scopes <@ granted is not true then
        foreach missing in array p_scopes loop
            if missing <> all (granted) then
                raise exception using
                    errcode = 'SV403',
                    message = missing,
                    detail = case when p_ends_retry then 'the use of the token must be noted' else '' end;
            end if;
        end loop;
    end if;

    execute format(
        'set local svc.user_id = %L; set local svc.token_hash = %L; set local svc.scopes = %L; '
        'set local svc.version = %L',
        p_user_id, encode(p_token_hash, 'hex'), array_to_string(granted, ' '), p_version
    );
    if p_limit_ms is not null then
        execute format('set local statement_timeout = %L', svc.lower_limit_ms(p_limit_ms));
    end if;
end
$$;

-- Opens the session of a token, for servers of versions 20 to 42, which expect an answer of these two columns. With
-- another column in it, their prepared calls fail ("cached plan must not change result type"), and they answer 500.
create or replace procedure svc.open_session(
    p_user_id         uuid,
    p_token_hash      bytea,
    p_scopes          text[],
    p_resources       text[],
    inout p_client_id text default null,
    inout p_grant_id  uuid default null,
    p_version         integer default null,
    p_limit_ms        integer default null
)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    ends_retry boolean;
begin
    call svc.open_token_session(
        p_user_id,
        p_token_hash,
        p_scopes,
        p_resources,
        p_client_id,
        p_grant_id,
        p_version,
        p_limit_ms,
        ends_retry
    );
end
$$;

-- The user of the open session: the owner of the valid token whose hash the session has, or of the key of a connection
-- with which its application may read (functions/connections.sql), else null.
-- The settings alone prove nothing, since every statement can set them; so the token is looked up
-- again here, by a function that runs with its owner's rights. Outside a session a setting is '' or null.
-- This cannot protect against a client that runs whole statements of its own: it can leave things behind
-- on the connection, a prepared statement of another meaning for example. The protocol in use carries one statement
-- a message, so an injection into a part of one can run no other. It can call functions: on the embedded server, the
-- roles may not call those that leave something behind or lift a limit (embedded/database.sql).
-- A session without a version was opened before sessions had one, and its transaction waited while the schema
-- changed: its server is too old.
-- Policies call this in a scalar subquery, so that it runs once for each table of a query.
create or replace function svc.session_user_id()
returns uuid
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    claimed constant uuid := nullif(current_setting('svc.user_id', true), '')::uuid;
    hash    constant bytea := decode(nullif(current_setting('svc.token_hash', true), ''), 'hex');
    owner   uuid;
begin
    if claimed is not null and nullif(current_setting('svc.version', true), '') is null then
        raise exception using errcode = '57SV1', message = 'the session was opened without a version';
    end if;
    select user_id
      into owner
      from oauth.live_access_token
     where user_id = claimed
       and token_hash = hash;
    -- Nearly all sessions are those of tokens, and the start of one look-up takes longer than the look-up.
    if not found then
        select key.user_id
          into owner
          from profile.integration_key as key
          join identity.user as person using (user_id)
         where key.key_hash = hash
           and key.user_id = claimed
           and key.scopes <> '{}';
    end if;
    return owner;
end
$$;

-- The token of the open session, for its holder: nothing about its owner. An API token is listed under its name, the
-- token of an application under the application's. No row: the token is not valid, or the session was opened with the
-- key of a connection.
create or replace function svc.session_token(p_user_id uuid)
returns table (
    kind        text,
    scopes      text[],
    resource    text,
    name        text,
    application text,
    created_at  timestamptz,
    expires_at  timestamptz
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    select case when token_grant.client_id is null then 'api_token' else 'oauth' end,
           live.scopes,
           live.resource,
           coalesce(token_grant.name, client.client_name, token_grant.client_id),
           token_grant.client_id,
           token.issued_at,
           least(token.expires_at, token_grant.expires_at)
      from oauth.live_access_token as live
      join oauth.access_token as token using (user_id, token_hash)
      join oauth.grant as token_grant
        on token_grant.user_id = live.user_id
       and token_grant.grant_id = live.grant_id
      left join oauth.client as client
        on client.client_id = token_grant.client_id
     where live.user_id = p_user_id
       and live.user_id = nullif(current_setting('svc.user_id', true), '')::uuid
       and live.token_hash = decode(nullif(current_setting('svc.token_hash', true), ''), 'hex')
$$;

-- Limits the next statement to the remaining time of an answer, which began with the transaction: the server
-- counts each statement's time anew. Without any remaining time, the statement is canceled at once, like one that
-- takes too long.
create or replace function svc.limit_answer(p_limit_ms integer)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    spent_ms constant integer := ceil(
        extract(epoch from clock_timestamp() - transaction_timestamp()) * 1000
    );
begin
    perform set_config(
        'statement_timeout',
        svc.lower_limit_ms(greatest(p_limit_ms, 0) - spent_ms)::text,
        true
    );
end
$$;

-- Limits the time of the next statement of a page, and its waits for locks, to the end of the transaction. The
-- values are fixed, so that the role of the pages cannot set others.
create or replace function svc.limit_page()
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform set_config('statement_timeout', '5s', true);
    perform set_config('lock_timeout', '2s', true);
end
$$;
