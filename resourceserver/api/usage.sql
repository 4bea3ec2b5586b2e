-- name: note_uses
-- Notes when tokens were used last (sql/functions/usage.sql). A row: the hash of a token whose turn comes
-- later.
select token_hash
  from svc.note_uses(%(user_ids)s, %(token_hashes)s, %(used_at)s, %(version)s) as token_hash
