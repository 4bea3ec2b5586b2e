-- The connections of people, for the operator. Each command is one transaction with the rights of the owner of the
-- tables; what begins or ends access is a security event of the account.

-- name: add_connection
-- Adds a connection with the hash of its key, or with sealed secrets. Answers why not, or null.
with outcome as (
    select svc.put_connection(
               %(user_id)s,
               %(connection_id)s,
               %(kind)s,
               %(data)s,
               %(name)s,
               %(settings)s::jsonb,
               %(key_hash)s,
               %(scopes)s::text[],
               %(fields)s::text[],
               %(key_ids)s::text[],
               %(sealed)s::text[]::bytea[]
           ) as problem
),
recorded as (
    insert into identity.security_event (user_id, event)
    select %(user_id)s,
           'connection_added'
      from outcome
     where problem is null
)
select problem
  from outcome

-- name: connections
-- The connections of one account, or of all, the newest first. The first time is that since which one has ended, is
-- paused, or brings nothing because of a problem.
select connection.connection_id,
       person.email,
       connection.kind,
       connection.name,
       svc.connection_state(
           connection.stopped_at,
           connection.paused_at,
           connection.is_refused,
           connection.problem,
           connection.last_record_at
       ) as state,
       coalesce(connection.stopped_at, connection.paused_at, connection.failing_since) as since,
       connection.problem,
       connection.record_count,
       connection.last_record_at,
       key.last_used_at
  from profile.connection
  join identity.user as person using (user_id)
  left join profile.integration_key as key using (user_id, connection_id)
 where %(user_id)s::uuid is null or user_id = %(user_id)s
 order by connection.created_at desc,
          connection.connection_id
 limit %(limit)s

-- name: remove_connection
-- Ends a connection, and has what it brought removed if so chosen. Answers its name, or no row: there is none, or nothing
-- was left to end or to remove.
with ended as (
    select connection.user_id,
           connection.name
      from profile.connection
     where connection.connection_id = %(connection_id)s
       and svc.stop_connection(connection.user_id, connection.connection_id, %(is_removed)s)
),
recorded as (
    insert into identity.security_event (user_id, event)
    select user_id,
           'connection_ended'
      from ended
)
select name
  from ended

-- name: pulled_connection
-- Whose a connection is that the worker pulls, its kind and its name. No row: there is none, or it has ended.
select user_id,
       kind,
       name
  from profile.connection
 where connection_id = %(connection_id)s
   and next_pull_at is not null
   and stopped_at is null

-- name: renew_secrets
-- Replaces sealed secrets of a connection, and has it pulled as soon as its service permits it. No row: it has ended.
with renewed as (
    select svc.put_connection_secrets(
               %(user_id)s,
               %(connection_id)s,
               %(fields)s::text[],
               %(key_ids)s::text[],
               %(sealed)s::text[]::bytea[]
           ) as is_done
),
recorded as (
    insert into identity.security_event (user_id, event)
    select %(user_id)s,
           'connection_key_renewed'
      from renewed
     where is_done
)
select
  from renewed
 where is_done
