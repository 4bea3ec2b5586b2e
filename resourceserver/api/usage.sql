-- name: note_uses
-- Records when tokens were used last (sql/functions/usage.sql). A row is the hash of a token whose use must be
-- recorded later, because its grant is locked.
select token_hash
  from svc.note_uses(%(user_ids)s, %(token_hashes)s, %(used_at)s, %(version)s) as token_hash

-- name: note_first_use
-- Records the first use of a token at once, so that the refresh that issued it cannot be repeated any more.
select token_hash
  from svc.note_uses(
           array[%(user_id)s::uuid],
           array[%(token_hash)s::bytea],
           array[now()],
           %(version)s
       ) as token_hash
