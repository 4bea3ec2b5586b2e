-- Refreshes that are repeated because their answer was lost (retry.py).

-- fragment: erased_answers
-- Revoked grants keep no answers.
-- needs: revoked (grant_id, user_id)
erased_answers as (
    delete from oauth.refresh_retry
     using revoked
     where refresh_retry.user_id = revoked.user_id
       and refresh_retry.grant_id = revoked.grant_id
),

-- name: sealed_answer
-- The sealed answer to a refresh that its client may still repeat. No row: another client has presented the token, the
-- time is over, or one of the new tokens was used.
select refresh_retry.sealed
  from oauth.refresh_retry
  join oauth.grant as grant_row using (user_id, grant_id)
 where refresh_retry.user_id = %(user_id)s
   and refresh_retry.token_hash = %(token_hash)s
   and refresh_retry.expires_at > now()
   and grant_row.user_id = %(user_id)s
   and grant_row.client_id = %(client_id)s

-- name: live_pair
-- The token pair of an answer that is repeated. No row: one of the tokens has ended.
select access_token.grant_id,
       access_token.scopes,
       extract(epoch from issued.expires_at - now())::integer as expires_in
  from oauth.live_access_token as access_token
  join oauth.access_token as issued using (user_id, token_hash)
  join oauth.refresh_token
    on refresh_token.user_id = %(user_id)s
   and refresh_token.grant_id = access_token.grant_id
 where access_token.user_id = %(user_id)s
   and access_token.token_hash = %(access_token_hash)s
   and issued.user_id = %(user_id)s
   and refresh_token.token_hash = %(refresh_token_hash)s
   and refresh_token.rotated_at is null
   and refresh_token.expires_at > now()
