-- name: alive
-- Returns a row at once.
select 1
