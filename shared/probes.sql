-- name: alive
-- Answers at all.
select 1
