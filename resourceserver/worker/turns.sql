-- The turns of the worker. Each statement is one function (sql/functions/turns.sql), because a worker serves all people
-- and row-level security shows it one.

-- name: claim_turn
-- The turn of these kinds that has waited longest, with the end of its lease; no row: none is due.
select user_id,
       kind,
       leased_until,
       attempt
  from svc.claim_turn(%(kinds)s, %(version)s, %(lease)s)

-- name: renew_turn
-- The new end of a lease; no row: another worker has the turn, or it is gone.
select svc.renew_turn(%(user_id)s, %(kind)s, %(leased_until)s, %(lease)s)

-- name: finish_turn
-- Ends a turn whose work is done, until :wait is over, or for good without one.
select svc.finish_turn(%(user_id)s, %(kind)s, %(leased_until)s, %(wait)s)

-- name: put_off_turn
-- Ends a turn whose work has failed.
select svc.put_off_turn(%(user_id)s, %(kind)s, %(leased_until)s, %(wait)s)

-- name: give_back_turn
-- Ends a turn whose work was stopped, as if it had not begun.
select svc.give_back_turn(%(user_id)s, %(kind)s, %(leased_until)s)

-- name: add_turns
-- Makes turns of a kind due now for listed people who have none of it.
select svc.add_turns(%(kind)s, %(user_ids)s::uuid[])

-- name: is_overdue
-- Whether work has waited for more than 15 minutes and no worker has a turn.
select svc.is_work_overdue(%(version)s)

-- name: work_waiting
-- How much work waits and for how long, by kind.
select kind,
       people_marked,
       oldest_mark_s,
       turns_due,
       turns_running,
       oldest_turn_s
  from svc.work_waiting(%(version)s)
