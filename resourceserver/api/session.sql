-- name: open_session
-- Opens the session of a token for the rest of the transaction (sql/session.sql).
call svc.open_session(
    %(user_id)s,
    %(token_hash)s,
    %(scopes)s,
    %(resources)s,
    p_version => %(version)s,
    p_limit_ms => %(limit_ms)s
)

-- name: hold_schema
-- Keeps away migrations that exclude this code, until the transaction ends. One that reads all as of one moment
-- must have this lock before that moment: a table that was written anew since then would seem to be empty.
lock table svc.schema_version in access share mode

-- name: limit_answer
-- Leaves the next statement no more time than the answer still has (sql/session.sql).
select svc.limit_answer(%(limit_ms)s)
