-- name: open_session
-- Opens the session of a token for the rest of the transaction (sql/session.sql).
call svc.open_session(%(user_id)s, %(token_hash)s, %(scopes)s, %(resources)s, p_version => %(version)s)

-- name: as_json
-- The one row of a question as a JSON object; its columns are the members.
select row_to_json(body)::text
  from (
--rows
       ) as body
