-- The import of uploaded files by the worker, in a job for their person (svc.open_job).

-- name: open_job
-- Begins a job for a person (sql/policies.sql).
call svc.open_job(%(user_id)s, %(version)s)

-- name: waiting_uploads
-- The uploads of a person that wait, the one that has waited longest first, with the person's time zone; no row: none
-- waits, or the account is deleted. One whose import broke off comes after the others, so that a file that always fails
-- delays none of them.
select upload.upload_id,
       upload.file_name,
       upload.format,
       coalesce(person.timezone, 'UTC')
  from profile.upload
  join identity.user as person
    on person.user_id = %(user_id)s
 where upload.user_id = %(user_id)s
   and upload.status in ('complete', 'taken')
   and upload.expires_at > now()
 order by upload.expires_at,
          upload.completed_at,
          upload.upload_id

-- name: take_upload
-- Notes that an upload is being imported, for which it has another day, but not more than three in all; no row: it has
-- ended.
update profile.upload
   set status = 'taken',
       expires_at = least(now() + interval '24 hours', completed_at + interval '3 days')
 where user_id = %(user_id)s
   and upload_id = %(upload_id)s
   and status in ('complete', 'taken')
returning upload_id

-- name: note_import
-- Notes which import an upload became.
update profile.upload
   set import_id = %(import_id)s
 where user_id = %(user_id)s
   and upload_id = %(upload_id)s

-- name: end_upload
-- Ends an upload, whose file can then be removed; `problem` says why it was not imported.
update profile.upload
   set status = 'ended',
       problem = %(problem)s,
       ended_at = now()
 where user_id = %(user_id)s
   and upload_id = %(upload_id)s
   and status in ('complete', 'taken')

-- name: is_free
-- Whether no command imports this file or continues this import now. The command holds the lock (receipts.sql); this
-- statement has it until the end of its transaction alone.
select pg_try_advisory_xact_lock(hashtextextended('import ' || %(what)s, 0))
