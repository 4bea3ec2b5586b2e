-- name: progress
-- How far a signed-in person has come with a first event; always one row. Only a live token with one of the scopes
-- counts as a key. Data of a person may come from a device or from a file.
select exists (
           select
             from oauth.live_grant as key
            where key.user_id = %(user_id)s
              and key.client_id is null
              and key.scopes && %(scopes)s::text[]
       ) as has_key,
       exists (
           select
             from oauth.live_grant as key
            where key.user_id = %(user_id)s
              and key.client_id is null
              and key.scopes && %(scopes)s::text[]
              and key.last_used_at is not null
       ) as is_key_used,
       exists (
           select
             from svc.devices(%(user_id)s, %(session_hash)s, 1000) as device
            where device.last_event_at is not null
       )
       or exists (
           select
             from svc.imports(%(user_id)s, %(session_hash)s, 1000) as import
            where import.added > 0
              and import.status <> 'undone'
       ) as has_event
