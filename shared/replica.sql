-- name: log_position
-- The state that a replica must have to see what this transaction sees; null on a server in recovery.
select cluster,
       timeline,
       log_end
  from svc.log_position()

-- name: await_replay
-- Waits until the replica has this state of the primary (sql/functions/replica.sql).
select svc.await_replay(%(cluster)s, %(timeline)s, %(log_end)s::text::pg_lsn, %(wait_ms)s)

-- name: keeps_rows
-- Whether the primary keeps rows that this replica still reads. Without that, the replay cancels long reads more often.
select current_setting('hot_standby_feedback') = 'on' as keeps_rows
