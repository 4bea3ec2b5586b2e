-- Usable from version 20 on.
-- Older code does not use the new tables.

-- The upload of one file, and its ticket: a token that opens nothing but this upload (sql/functions/uploads.sql). The
-- file itself lies in the upload directory of the resource server under the name `upload_id`.
--
--   ticket ──► receiving ──► complete ──► taken ──► ended
--              the client    it waits     it is     the file is removed
--              sends it                   imported
--
-- An upload also ends when it expires or its person cancels it; `problem` then says so. An import that has begun has
-- its own receipt, whose id is `import_id`.
create table profile.upload (
    user_id      uuid           not null,
    upload_id    uuid           not null default gen_random_uuid(),
    ticket_hash  bytea          not null,
    status       text           not null default 'ticket',
    file_name    text,
    format       text,
    -- The bytes of the whole file, and how many of them are in the upload directory.
    length       bigint,
    received     bigint         not null default 0,
    import_id    uuid,
    problem      text,
    created_at   timestamptz(3) not null default now(),
    expires_at   timestamptz(3) not null default now() + interval '24 hours',
    completed_at timestamptz,
    ended_at     timestamptz(3),
    constraint upload_pkey primary key (user_id, upload_id),
    constraint upload_has_its_own_ticket unique (user_id, ticket_hash),
    constraint upload_ticket_hash_is_sha256 check (length(ticket_hash) = 32),
    constraint upload_status_is_a_known_one check (
        status in ('ticket', 'receiving', 'complete', 'taken', 'ended')
    ),
    constraint upload_is_of_a_file check (
        status = 'ticket' or (file_name is not null and upload.length is not null)
    ),
    constraint upload_file_name_is_short check (length(file_name) between 1 and 1024),
    constraint upload_format_is_a_name check (format ~ '^[a-z][a-z0-9_]{0,63}$'),
    constraint upload_received_is_within_its_length check (
        received between 0 and coalesce(upload.length, 0)
    ),
    constraint upload_is_complete_with_its_last_byte check (
        status not in ('complete', 'taken') or (received = upload.length and completed_at is not null)
    ),
    constraint upload_is_ended_at_some_time check ((status = 'ended') = (ended_at is not null)),
    constraint upload_problem_is_short check (length(problem) between 1 and 1000),
    constraint upload_year_has_four_digits check (
        least(created_at, expires_at, completed_at, ended_at) >= '0001-01-01 00:00:00+00'
        and greatest(created_at, expires_at, completed_at, ended_at) <= '9999-12-31 23:59:59.999+00'
    )
);

-- The upload directory that a process of each kind has found when it started last: the id in the directory's marker
-- file. Where the ids differ, the worker cannot find the files that the server writes.
create table svc.upload_directory (
    process      text        not null,
    directory_id uuid        not null,
    started_at   timestamptz not null default now(),
    constraint upload_directory_pkey primary key (process),
    constraint upload_directory_is_of_a_known_process check (process in ('server', 'worker'))
);
