-- The turn of a pull. The statements run in a job for its person, with the login of the worker.

-- name: open_job
-- Begins a job for a person (sql/policies.sql).
call svc.open_job(%(user_id)s, %(version)s)

-- name: claim_pull
-- The connection of a person that has waited longest, with all that its pull needs; no row: none is due. It is put off
-- for a while, so that a pull that kills its worker does not keep the person's other connections waiting. What a pull has
-- left is its state but for `retry_at`: until then the service wants to be left alone, whatever its person asks for.
with next as (
    select connection_id
      from profile.connection
     where user_id = %(user_id)s
       and next_pull_at <= now()
       and paused_at is null
       and stopped_at is null
       and kind = any (%(kinds)s::text[])
     order by next_pull_at
     limit 1
)
update profile.connection
   set next_pull_at = now() + interval '10 minutes'
  from next,
       identity.user as person
 where connection.user_id = %(user_id)s
   and connection.connection_id = next.connection_id
   and person.user_id = %(user_id)s
returning connection.connection_id,
          connection.import_id,
          connection.kind,
          connection.settings,
          connection.state - 'retry_at',
          connection.failures,
          person.timezone,
          now(),
          (
              select coalesce(json_agg(json_build_array(field, key_id, encode(sealed, 'base64'))), '[]')
                from profile.connection_secret as secret
               where secret.user_id = %(user_id)s
                 and secret.connection_id = connection.connection_id
          )

-- name: begin_pull
-- Gives the import of a connection the key with which this pull writes; no row: the connection has ended.
update profile.import
   set key_hash = %(key_hash)s
 where user_id = %(user_id)s
   and import_id = %(import_id)s
   and status = 'running'
returning import_id

-- name: end_pull
-- Notes a pull that has succeeded. The next one comes an hour later, give or take six minutes, or when the service
-- permits it. No row: the connection has ended, or another pull has begun.
update profile.connection
   set state = case
                   when %(retry_after)s::interval is null
                       then %(state)s::jsonb
                   else %(state)s::jsonb || jsonb_build_object('retry_at', now() + %(retry_after)s::interval)
               end,
       problem = null,
       failing_since = null,
       is_refused = false,
       failures = 0,
       last_pull_at = now(),
       next_pull_at = now() + greatest(interval '54 minutes' + random() * interval '12 minutes', %(retry_after)s::interval)
 where user_id = %(user_id)s
   and connection_id = %(connection_id)s
   and exists (
           select
             from profile.import
            where import.user_id = %(user_id)s
              and import.import_id = %(import_id)s
              and import.key_hash = %(key_hash)s
              for share
       )
returning connection_id

-- name: fail_pull
-- Notes why a pull has failed, and when it is tried again: if its person has entered the secrets again meanwhile, at
-- once or when the service permits it. No row: the connection has ended, or another pull has begun.
update profile.connection
   set state = case
                   -- A long state leaves no room.
                   when %(retry_after)s::interval is null or length(state::text) > 99000
                       then state - 'retry_at'
                   else state || jsonb_build_object('retry_at', now() + %(retry_after)s::interval)
               end,
       problem = %(problem)s,
       failing_since = coalesce(failing_since, now()),
       is_refused = %(is_refused)s,
       failures = failures + 1,
       last_pull_at = now(),
       next_pull_at = case
                          when exists (
                                   select
                                     from profile.connection_secret as secret
                                    where secret.user_id = %(user_id)s
                                      and secret.connection_id = %(connection_id)s
                                      and secret.sealed_at > %(claimed_at)s
                               )
                              then now() + coalesce(%(retry_after)s::interval, interval '0')
                          else now() + %(wait)s
                      end
 where user_id = %(user_id)s
   and connection_id = %(connection_id)s
   and exists (
           select
             from profile.import
            where import.user_id = %(user_id)s
              and import.import_id = %(import_id)s
              and import.key_hash = %(key_hash)s
              for share
       )
returning connection_id

-- name: next_pull
-- How long it is until the person's next pull is due; no row: nothing is to be pulled.
select greatest(min(next_pull_at) - now(), interval '0')
  from profile.connection
  join identity.user as person on person.user_id = %(user_id)s
 where connection.user_id = %(user_id)s
   and paused_at is null
   and stopped_at is null
   and kind = any (%(kinds)s::text[])
having min(next_pull_at) is not null
