-- The statements of the page about files that a person brings. The role authserver cannot read data of people; each
-- statement calls a function that checks the sign-in session of the person (sql/functions/import_list.sql,
-- sql/functions/uploads.sql, sql/functions/undo.sql).

-- name: import
-- One import of the signed-in person. No row: there is none, or the session has ended.
select import_id,
       file_name,
       status,
       added
  from svc.imports(%(user_id)s, %(session_hash)s, 1, p_import_id => %(import_id)s)

-- name: imports
-- The imports of the signed-in person, newest first. No row: there are none, or the session has ended.
select import_id,
       file_name,
       status,
       problem,
       started_at,
       finished_at,
       formats,
       records,
       added,
       known,
       changed,
       refused,
       first_at,
       last_at,
       part_count,
       finished_count,
       problem_count,
       problems,
       refusals,
       ignored,
       ignored_names
  from svc.imports(%(user_id)s, %(session_hash)s, %(most)s, %(before)s)

-- name: uploads
-- The uploads of the signed-in person, newest first. No row: there are none, or the session has ended.
select upload_id,
       status,
       file_name,
       format,
       length,
       received,
       import_id,
       problem,
       expires_at,
       ended_at
  from svc.uploads(%(user_id)s, %(session_hash)s)

-- name: create_upload
-- Creates the ticket of an upload. No row: the session has ended, or the sign-in is too old.
select upload_id
  from svc.create_upload(%(user_id)s, %(session_hash)s, %(ticket_hash)s)

-- name: renew_upload
-- Gives an upload that is not complete another ticket. False: it is over, or the sign-in is too old.
select svc.renew_upload(%(user_id)s, %(session_hash)s, %(upload_id)s, %(ticket_hash)s) as is_done

-- name: cancel_upload
-- Cancels an upload. False: its import has begun, it is over already, or the session has ended.
select svc.cancel_upload(%(user_id)s, %(session_hash)s, %(upload_id)s) as is_done

-- name: request_undo
-- Marks an import as undone. Answers why not, or null.
select svc.request_undo(%(user_id)s, %(session_hash)s, %(import_id)s) as problem
