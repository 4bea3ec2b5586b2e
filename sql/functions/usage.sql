-- The last use of tokens, as the resource servers report it. May run again at any time.

-- Records on their grants when these tokens were used, to the minute, and erases the answers to refreshes that issued
-- them, which therefore cannot be repeated any more. Returns the tokens to record again later,
-- because another transaction has locked the grant. An older report never replaces a newer one, and
-- deleted tokens are skipped.
-- Raises 57SV1 and 57SV2 where the worker's version does not fit the schema (versions.sql).
-- Locks only grants and these answers, and waits for none of them: a deletion of an account locks them in another order
-- (authserver/janitor.sql). A transaction that has locked an answer erases it.
-- In PL/pgSQL, because an SQL function locks all its tables before its first statement runs (PostgreSQL 15),
-- and would hold those locks while the check waits for a migration.
drop function if exists svc.note_uses(uuid[], bytea[], timestamptz[]);
create or replace function svc.note_uses(
    p_user_ids     uuid[],
    p_token_hashes bytea[],
    p_used_at      timestamptz[],
    p_version      integer default null
)
returns setof bytea
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.check_version(p_version);
    return query
    with used as (
        select token_grant.user_id,
               token_grant.grant_id,
               max(date_trunc('minute', use.used_at, 'UTC')) as used_at
          from unnest(p_user_ids, p_token_hashes, p_used_at) as use (user_id, token_hash, used_at)
          join oauth.access_token using (user_id, token_hash)
          join oauth.grant as token_grant using (user_id, grant_id)
         where token_grant.last_used_at is null
            or token_grant.last_used_at < date_trunc('minute', use.used_at, 'UTC')
         group by token_grant.user_id,
                  token_grant.grant_id
    ),
    held as (
        select token_grant.user_id,
               token_grant.grant_id,
               used.used_at
          from used
          join oauth.grant as token_grant using (user_id, grant_id)
           for no key update of token_grant skip locked
    ),
    updated as (
        update oauth.grant
           set last_used_at = greatest(oauth.grant.last_used_at, held.used_at)
          from held
         where oauth.grant.user_id = held.user_id
           and oauth.grant.grant_id = held.grant_id
    ),
    answered as (
        select refresh_retry.user_id,
               refresh_retry.token_hash
          from unnest(p_user_ids, p_token_hashes) as use (user_id, access_token_hash)
          join oauth.refresh_retry using (user_id, access_token_hash)
           for update of refresh_retry skip locked
    ),
    erased as (
        delete from oauth.refresh_retry
         using answered
         where refresh_retry.user_id = answered.user_id
           and refresh_retry.token_hash = answered.token_hash
    )
    select access_token.token_hash
      from used
      join oauth.access_token using (user_id, grant_id)
     where not exists (
               select from held
                where held.user_id = used.user_id
                  and held.grant_id = used.grant_id
           );
end
$$;
