-- The statements of the pages about connections. The role authserver cannot read data of people; each statement calls a
-- function that checks the sign-in session of the person (sql/functions/connections.sql). What begins or ends access
-- records its security event in the same statement.

-- name: connections
-- The connections of the signed-in person, or one of them, newest first. No row: there are none, or the session has
-- ended.
select connection_id,
       kind,
       name,
       state,
       settings,
       problem,
       failing_since,
       created_at,
       first_record_at,
       last_record_at,
       record_count,
       refused,
       refused_reason,
       scopes,
       key_created_at,
       key_used_at,
       last_pull_at,
       next_pull_at,
       retry_at,
       paused_at,
       stopped_at,
       is_removed
  from svc.connections(%(user_id)s, %(session_hash)s, %(connection_id)s)

-- fragment: event_of_outcome
-- `new_event`: the security event of what was not refused.
-- needs: outcome (problem)
-- gives: new_event (client_id, event, grant_id, user_id)
new_event as (
    select %(event)s::text as event,
           %(user_id)s::uuid as user_id,
           null::text as client_id,
           null::uuid as grant_id
      from outcome
     where problem is null
),

-- name: add
-- Adds a connection with the hash of its key, or with sealed secrets. Answers why not, or null.
with outcome as (
    select svc.add_connection(
               %(user_id)s,
               %(session_hash)s,
               %(connection_id)s,
               %(kind)s,
               %(data)s,
               %(name)s,
               %(settings)s,
               %(key_hash)s,
               %(scopes)s,
               %(fields)s,
               %(key_ids)s,
               %(sealed)s
           ) as problem
),
--include event_of_outcome
--include recorded
select problem
  from outcome

-- name: renew_key
-- Gives a connection another key in place of the one that was created at an instant. Answers why not, or null.
with outcome as (
    select svc.renew_connection_key(
               %(user_id)s,
               %(session_hash)s,
               %(connection_id)s,
               %(key_hash)s,
               %(key_created_at)s
           ) as problem
),
--include event_of_outcome
--include recorded
select problem
  from outcome

-- name: renew_secrets
-- Replaces secrets of a connection that the worker pulls. Answers why not, or null.
with outcome as (
    select svc.renew_connection_secrets(
               %(user_id)s,
               %(session_hash)s,
               %(connection_id)s,
               %(fields)s,
               %(key_ids)s,
               %(sealed)s
           ) as problem
),
--include event_of_outcome
--include recorded
select problem
  from outcome

-- name: end
-- Ends a connection, and has what it brought removed if so chosen. Answers why not, or null.
with outcome as (
    select svc.end_connection(
               %(user_id)s,
               %(session_hash)s,
               %(connection_id)s,
               %(is_removed)s
           ) as problem
),
--include event_of_outcome
--include recorded
select problem
  from outcome

-- name: pause
-- Pauses a connection or continues it. False: there is no such connection, or the session has ended.
select svc.pause_connection(%(user_id)s, %(session_hash)s, %(connection_id)s, %(is_paused)s) as is_done

-- name: change_settings
-- Replaces the settings of a connection through which an application sends. False: there is no such connection, or the
-- session has ended.
select svc.change_connection_settings(%(user_id)s, %(session_hash)s, %(connection_id)s, %(settings)s) as is_done

-- name: pull
-- Has the worker pull a connection now. False: it did so less than a minute ago, or there is no such connection.
select svc.pull_now(%(user_id)s, %(session_hash)s, %(connection_id)s) as is_done
