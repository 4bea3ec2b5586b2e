-- The query of the page for the download. The role authserver may not read data of people; the statement calls a
-- function that checks the sign-in session of the person (sql/functions/export_rows.sql).

-- name: export_rows
-- About how many rows of each kind an export has, with the scope that they need. No row: the session has ended.
select resource,
       scope,
       row_count
  from svc.export_rows(%(user_id)s, %(session_hash)s)
