-- The key of a delivery and its transaction, with the login of the importer.

-- name: look_key_up
-- The connection that has the key; opens no session (sql/functions/connections.sql).
call svc.open_receiver(%(key_hash)s, %(kind)s, %(version)s, p_opens => false)

-- name: open_receiver
-- Opens the session of the connection that has the key (sql/functions/connections.sql).
call svc.open_receiver(%(key_hash)s, %(kind)s, %(version)s)
