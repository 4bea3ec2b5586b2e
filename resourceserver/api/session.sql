-- name: open_token_session
-- Opens the session of a token for the rest of the transaction (sql/session.sql).
call svc.open_token_session(
    %(user_id)s,
    %(token_hash)s,
    %(scopes)s,
    %(resources)s,
    p_version => %(version)s,
    p_limit_ms => %(limit_ms)s
)

-- name: hold_schema
-- Keeps migrations that exclude this code waiting until the transaction ends. A transaction with one snapshot must
-- have this lock before the snapshot: a table that was rewritten after it would seem to be empty.
lock table svc.schema_version in access share mode

-- name: limit_answer
-- Limits the next statement to the remaining time of the answer (sql/session.sql).
select svc.limit_answer(%(limit_ms)s)
