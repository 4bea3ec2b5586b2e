-- The removal of sessions of old years (sql/functions/retention.sql).

-- name: people_due
-- Up to :limit people with sessions that are older than :years or with months to open, in order of their ids, after one.
select svc.people_with_old_sessions(%(after)s, %(years)s, %(limit)s, %(version)s)

-- name: lift_time_limit
-- Lets the next statement of the transaction take as long as it needs: a month may have a million sessions.
set local statement_timeout = 0

-- name: remove_old_sessions
-- Removes the oldest month of a person's sessions, if it is older than :years, or opens months that are kept.
select state,
       app_sessions,
       coding_sessions,
       before
  from svc.remove_old_sessions(%(user_id)s, %(years)s, %(version)s)
