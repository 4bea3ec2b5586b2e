-- The transaction of a delivery, with the login of the importer.

-- name: open_receiver
-- Opens the session of the connection that has the key (sql/functions/connections.sql).
call svc.open_receiver(%(key_hash)s, %(kind)s, %(version)s)
