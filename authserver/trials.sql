-- name: limit_time
-- Limits the duration and the lock waits of the next statement in the same transaction.
select svc.limit_page()

-- name: try_rules
-- Tries expressions of one person. Answers how many were switched off; null: there are no more at the moment.
select svc.try_rules()
