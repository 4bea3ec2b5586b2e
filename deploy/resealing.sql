-- The secrets of connections, sealed anew with the rights of the owner of the tables.

-- name: become_owner
-- Gives the following statements the rights of the owner of the tables.
set role svc_owner

-- name: older_secrets
-- Some secrets that are sealed to another key than the newest, after the last one that was read.
select user_id,
       connection_id,
       field,
       key_id,
       sealed
  from profile.connection_secret
 where key_id <> %(newest_key_id)s
   and (user_id, connection_id, field) > (%(user_id)s, %(connection_id)s, %(field)s)
 order by user_id,
          connection_id,
          field
 limit 500

-- name: replace_secret
-- Stores a secret that was sealed anew; no row: its person has replaced or removed it meanwhile.
update profile.connection_secret
   set key_id = %(key_id)s,
       sealed = %(sealed)s,
       sealed_at = now()
 where user_id = %(user_id)s
   and connection_id = %(connection_id)s
   and field = %(field)s
   and sealed = %(older)s
