-- What the worker's login does about uploads (sql/functions/uploads.sql).

-- name: expire
-- Ends uploads that have expired.
select svc.expire_uploads(%(version)s)

-- name: unneeded
-- Which of these uploads need no file any more.
select svc.unneeded_uploads(%(upload_ids)s::uuid[], %(version)s)

-- name: note_directory
-- Notes the directory of this kind of process; the value is that of the other kind, null if there is none.
select svc.note_upload_directory(%(process)s, %(directory_id)s::uuid, %(version)s)
