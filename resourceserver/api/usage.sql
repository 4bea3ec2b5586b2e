-- name: note_uses
-- Records when tokens were used last (sql/functions/usage.sql). A row is the hash of a token whose use must be
-- recorded later, because its grant is locked.
select token_hash
  from svc.note_uses(%(user_ids)s, %(token_hashes)s, %(used_at)s, %(version)s) as token_hash
