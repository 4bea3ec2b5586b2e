-- What the run of load and faults prepares, and what it counts.

-- name: add_session
-- A sign-in of a person.
insert into identity.session (user_id, session_hash)
values (%s, %s)

-- name: add_upload
-- A file that has been uploaded to its end.
insert into profile.upload (
    user_id, ticket_hash, status, file_name, length, received, completed_at
)
values (%(user_id)s, %(hash)s, 'complete', 'listens.jsonl', %(size)s, %(size)s, now())
returning upload_id

-- name: make_import_due
-- Has a worker import the file.
select svc.make_due(%s, 'import')

-- name: count_events
-- How many of these events are stored.
select count(*)
  from activity.app_session
 where idempotency_key = any (%s)

-- name: import_of
-- The state of a person's import, and how many records it has added.
select import.status,
       (select count(*) from music.listen where listen.user_id = import.user_id)
  from profile.import
 where import.user_id = %s
