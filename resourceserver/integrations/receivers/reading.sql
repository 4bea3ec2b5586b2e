-- Reads with the key of a connection, with the login of the reader.

-- name: open_reading_key
-- Opens the session of the key (sql/functions/connections.sql).
call svc.open_reading_key(
    %(key_hash)s,
    %(kind)s::text,
    %(scope)s::text,
    %(version)s::integer,
    %(limit_ms)s::integer
)
