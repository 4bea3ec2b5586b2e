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
       paused_at,
       stopped_at,
       is_removed
  from svc.connections(%(user_id)s, %(session_hash)s, %(connection_id)s)

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
new_event as (
    select 'connection_added' as event,
           %(user_id)s::uuid as user_id,
           null::text as client_id,
           null::uuid as grant_id
      from outcome
     where problem is null
),
--include recorded
select problem
  from outcome
