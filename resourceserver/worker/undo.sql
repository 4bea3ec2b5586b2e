-- The removal of imports that their people have undone (sql/functions/undo.sql).

-- name: lift_time_limit
-- Lets the next statement of the transaction take as long as it needs: an import may have millions of records.
set local statement_timeout = 0

-- name: remove_undone
-- Removes the records of the imports that a person has undone, and answers how many imports these were.
select svc.remove_undone(%(user_id)s, %(version)s)
