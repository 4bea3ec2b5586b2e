-- Uploads of files, and their tickets. May run again at any time.
--
-- The authorization server creates tickets, lists uploads and cancels them, each for the person of a sign-in session.
-- The ingester receives the file: each of its functions looks the ticket up itself. The worker imports the file under
-- the policies of a job (policies.sql), and removes what is no longer needed.

-- Creates the ticket of an upload, whose hash is given, and returns the id of the upload; no row: the sign-in session
-- belongs to another account, has ended, or authenticated more than a quarter of an hour ago.
-- A person has at most 20 unused tickets and the last 200 uploads that have ended; older ones are removed.
create or replace function svc.create_upload(p_user_id uuid, p_session_hash bytea, p_ticket_hash bytea)
returns table (upload_id uuid)
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    -- The lock of the account also keeps two tickets from being counted at once.
    if not svc.is_freshly_signed_in(p_user_id, p_session_hash) then
        return;
    end if;
    delete from profile.upload
     where upload.user_id = p_user_id
       and upload.status in ('ticket', 'ended')
       and upload.upload_id in (
               select ranked.upload_id
                 from (
                          select other.upload_id,
                                 other.status,
                                 row_number() over (
                                     partition by other.status
                                         order by other.created_at desc,
                                                  other.upload_id
                                 ) as place
                            from profile.upload as other
                           where other.user_id = p_user_id
                      ) as ranked
                where ranked.place > case ranked.status when 'ticket' then 19 else 200 end
           );
    return query
    insert into profile.upload (user_id, ticket_hash)
    values (p_user_id, p_ticket_hash)
    returning upload.upload_id;
end
$$;

-- Gives an upload that is not complete another ticket, so that it can be continued wherever its person signs in. The
-- earlier ticket opens nothing any more. Returns false if there is no such upload, it is complete or over, or the sign-in
-- session is none with which a ticket can be created.
create or replace function svc.renew_upload(
    p_user_id      uuid,
    p_session_hash bytea,
    p_upload_id    uuid,
    p_ticket_hash  bytea
)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.is_freshly_signed_in(p_user_id, p_session_hash) then
        return false;
    end if;
    update profile.upload
       set ticket_hash = p_ticket_hash
     where upload.user_id = p_user_id
       and upload.upload_id = p_upload_id
       and upload.status = 'receiving'
       and upload.expires_at > now();
    return found;
end
$$;

-- The uploads of the signed-in person but for unused tickets, newest first; no row: none, or the session is not valid.
create or replace function svc.uploads(p_user_id uuid, p_session_hash bytea)
returns table (
    upload_id    uuid,
    status       text,
    file_name    text,
    format       text,
    length       bigint,
    received     bigint,
    import_id    uuid,
    problem      text,
    created_at   timestamptz,
    expires_at   timestamptz,
    completed_at timestamptz,
    ended_at     timestamptz
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
begin atomic
    select upload.upload_id,
           upload.status,
           upload.file_name,
           upload.format,
           upload.length,
           upload.received,
           upload.import_id,
           upload.problem,
           upload.created_at,
           upload.expires_at,
           upload.completed_at,
           upload.ended_at
      from profile.upload
     where upload.user_id = p_user_id
       and upload.status <> 'ticket'
       and svc.is_signed_in(p_user_id, p_session_hash)
     order by upload.created_at desc,
              upload.upload_id
     limit 100;
end;

-- Cancels an upload of the signed-in person. Returns whether it has: an import that has begun cannot be canceled, but
-- undone when it is over.
create or replace function svc.cancel_upload(p_user_id uuid, p_session_hash bytea, p_upload_id uuid)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    canceled integer;
begin
    update profile.upload
       set status = 'ended',
           ended_at = now(),
           problem = 'canceled'
     where upload.user_id = p_user_id
       and upload.upload_id = p_upload_id
       and upload.status in ('receiving', 'complete')
       and svc.is_signed_in(p_user_id, p_session_hash);
    get diagnostics canceled = row_count;
    return canceled = 1;
end
$$;

-- The upload of a ticket, and whether the ticket is still valid; no row: there is no such ticket, or its account is
-- deleted. Raises 57SV1 and 57SV2 if the server's version does not fit the schema (versions.sql).
create or replace function svc.find_upload(p_user_id uuid, p_ticket_hash bytea, p_version integer)
returns table (upload_id uuid, status text, length bigint, received bigint, expires_at timestamptz, is_valid boolean)
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.check_version(p_version);
    return query
    select upload.upload_id,
           upload.status,
           upload.length,
           upload.received,
           upload.expires_at,
           upload.status in ('ticket', 'receiving') and upload.expires_at > now()
      from profile.upload
      join identity.user as person using (user_id)
     where upload.user_id = p_user_id
       and upload.ticket_hash = p_ticket_hash;
end
$$;

-- Begins the upload of a ticket. Returns 'begun'; 'not_valid' if the ticket is not valid; 'exists' if the upload has
-- begun already, unless it may start again; 'too_many' if the person has 100 files here; or 'too_much' if all of these
-- would be larger than `p_most_bytes`.
create or replace function svc.begin_upload(
    p_user_id      uuid,
    p_ticket_hash  bytea,
    p_file_name    text,
    p_format       text,
    p_length       bigint,
    p_most_bytes   bigint,
    p_may_restart  boolean,
    p_version      integer
)
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    own profile.upload;
    others       bigint;
    bytes        numeric;
begin
    perform svc.check_version(p_version);
    -- Uploads that begin at the same time are counted one after the other, and none begins for a deleted account.
    perform from identity.user as person
      where person.user_id = p_user_id
        for no key update;
    if not found then
        return 'not_valid';
    end if;
    select *
      into own
      from profile.upload
     where upload.user_id = p_user_id
       and upload.ticket_hash = p_ticket_hash
       and upload.status in ('ticket', 'receiving')
       and upload.expires_at > now()
       for update;
    if not found then
        return 'not_valid';
    elsif own.status <> 'ticket' and not p_may_restart then
        return 'exists';
    end if;
    select count(*),
           coalesce(sum(upload.length), 0)
      into others,
           bytes
      from profile.upload
     where upload.user_id = p_user_id
       and upload.upload_id <> own.upload_id
       and upload.status in ('receiving', 'complete', 'taken')
       and upload.expires_at > now();
    if others >= 100 then
        return 'too_many';
    elsif bytes + p_length > p_most_bytes then
        return 'too_much';
    end if;
    update profile.upload
       set status = 'receiving',
           file_name = p_file_name,
           format = p_format,
           length = p_length,
           received = 0
     where upload.user_id = p_user_id
       and upload.upload_id = own.upload_id;
    return 'begun';
end
$$;

-- Notes that `p_received` bytes of an upload are in its file. With the last byte the upload is complete, its ticket is
-- no longer valid, and the person's import is due. Returns the new status; null if the ticket is not valid, or another
-- request has noted something since `p_before` bytes were there.
-- `p_length` is the length of the whole file, where it was not known exactly before.
create or replace function svc.advance_upload(
    p_user_id     uuid,
    p_ticket_hash bytea,
    p_before      bigint,
    p_received    bigint,
    p_length      bigint,
    p_version     integer
)
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    reached text;
begin
    perform svc.check_version(p_version);
    update profile.upload
       set received = p_received,
           length = p_length,
           status = case when p_received = p_length then 'complete' else 'receiving' end,
           completed_at = case when p_received = p_length then now() end,
           expires_at = case
                            when p_received = p_length then now() + interval '24 hours'
                            else upload.expires_at
                        end
     where upload.user_id = p_user_id
       and upload.ticket_hash = p_ticket_hash
       and upload.status = 'receiving'
       and upload.received = p_before
       and upload.expires_at > now()
       and exists (
               select
                 from identity.user as person
                where person.user_id = p_user_id
           )
    returning upload.status
      into reached;
    if reached = 'complete' then
        perform svc.make_due(p_user_id, 'import');
    end if;
    return reached;
end
$$;

-- Gives the ticket of an upload back that was sent by a form and broke off: nothing of it can be continued.
create or replace function svc.release_upload(p_user_id uuid, p_ticket_hash bytea, p_version integer)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.check_version(p_version);
    update profile.upload
       set status = 'ticket',
           received = 0,
           file_name = null,
           format = null,
           length = null
     where upload.user_id = p_user_id
       and upload.ticket_hash = p_ticket_hash
       and upload.status = 'receiving';
end
$$;

-- Ends uploads that have expired, and removes tickets that have, and uploads that ended 30 days ago.
create or replace function svc.expire_uploads(p_version integer)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.check_version(p_version);
    delete from profile.upload
     where (upload.status = 'ticket' and upload.expires_at <= now())
        or (upload.status = 'ended' and upload.ended_at <= now() - interval '30 days');
    update profile.upload
       set status = 'ended',
           ended_at = now(),
           problem = 'expired'
     where upload.status in ('receiving', 'complete', 'taken')
       and upload.expires_at <= now();
end
$$;

-- Of these uploads those whose files are not needed: they have ended or expired, or their account is deleted.
create or replace function svc.unneeded_uploads(p_upload_ids uuid[], p_version integer)
returns setof uuid
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.check_version(p_version);
    return query
    select given.upload_id
      from unnest(p_upload_ids) as given (upload_id)
     where not exists (
               select
                 from profile.upload
                 join identity.user as person using (user_id)
                where upload.upload_id = given.upload_id
                  and upload.status in ('receiving', 'complete', 'taken')
                  and upload.expires_at > now()
           );
end
$$;

-- Notes the upload directory of this kind of process, and returns the one that the other kind has noted, if any.
create or replace function svc.note_upload_directory(p_process text, p_directory_id uuid, p_version integer)
returns uuid
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.check_version(p_version);
    -- Several processes of one kind may start at the same moment.
    insert into svc.upload_directory (process, directory_id)
    values (p_process, p_directory_id)
        on conflict (process) do update
       set directory_id = excluded.directory_id,
           started_at = now();
    return (
        select upload_directory.directory_id
          from svc.upload_directory
         where upload_directory.process <> p_process
    );
end
$$;
