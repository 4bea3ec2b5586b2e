-- The statements of the page about files that a person brings. The role authserver cannot read data of people; each
-- statement calls a function that checks the sign-in session of the person (sql/functions/import_list.sql,
-- sql/functions/uploads.sql, sql/functions/undo.sql).

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
