-- name: connection_limit
-- The number of connections that the server allows logins that are not superusers. PostgreSQL 16 and newer can
-- reserve some of them for others.
select current_setting('max_connections')::integer
       - current_setting('superuser_reserved_connections')::integer
       - coalesce(current_setting('reserved_connections', true), '0')::integer

-- name: backend
-- The process of PostgreSQL that runs this statement.
select pg_backend_pid() as pid
