-- name: recent_addresses
-- The addresses where a person is signed in, or signed in within the last 90 days.
select address
  from identity.session
 where user_id = %(user_id)s
   and seen_at > now() - %(idle_lifetime)s::interval
   and address is not null
 union
select address
  from identity.security_event
 where user_id = %(user_id)s
   and event = 'signed_in'
   and occurred_at > now() - interval '90 days'
   and address is not null

-- name: insert_keys
-- Inserts a row for each key without one, so that the next statement of the transaction can lock all rows.
-- While one of the keys is delayed, none is inserted: a refused attempt must not add rows.
insert into identity.throttle (key_hash)
select key_hash
  from unnest(%(key_hashes)s::bytea[]) as attempted (key_hash)
 where not exists (
           select from identity.throttle as held
            where held.key_hash = any(%(key_hashes)s::bytea[])
              and held.delayed_until > now()
       )
 order by key_hash
    on conflict do nothing

-- name: count_attempt
-- Counts an attempt under all of its keys, or under none if one of them is delayed. Answers a row for each
-- key, or for each delayed key with its remaining delay. Rows are locked in the order of their keys, so
-- that concurrent attempts wait for each other without deadlocks and see each other's counts.
--
-- The delay doubles at most ten times, which exceeds the longest delay. Further attempts are not counted,
-- so that the time to forget them stays bounded and power() cannot overflow.
with attempted as (
    select key_hash,
           free
      from unnest(%(key_hashes)s::bytea[], %(free)s::integer[]) as attempted (key_hash, free)
),
already_delayed as (
    -- An attempt that will be refused need not lock rows that others wait for.
    select throttle.key_hash,
           throttle.delayed_until
      from identity.throttle
      join attempted using (key_hash)
     where throttle.delayed_until > now()
),
held as (
    select throttle.key_hash,
           attempted.free,
           greatest(throttle.forgotten_at, now()) as forgotten_at,
           throttle.delayed_until
      from identity.throttle
      join attempted using (key_hash)
     where not exists (select from already_delayed)
     order by throttle.key_hash
       for update of throttle
),
incremented as (
    select key_hash,
           free,
           forgotten_at as was_forgotten_at,
           least(
               forgotten_at + %(forgotten_after)s::interval,
               now() + (free + 10) * %(forgotten_after)s::interval
           ) as forgotten_at
      from held
     where not exists (select from held as other where other.delayed_until > now())
),
with_level as (
    select key_hash,
           free,
           forgotten_at,
           forgotten_at - was_forgotten_at as added,
           ceil(
               extract(epoch from forgotten_at - now()) / extract(epoch from %(forgotten_after)s::interval)
           )::integer as level
      from incremented
),
counted as (
    update identity.throttle
       set forgotten_at = with_level.forgotten_at,
           delayed_until = case
               when with_level.level >= with_level.free
               then now() + least(
                        power(2, with_level.level - with_level.free) * interval '1 second',
                        interval '15 minutes'
                    )
           end
      from with_level
     where throttle.key_hash = with_level.key_hash
    returning throttle.key_hash,
              throttle.delayed_until,
              with_level.added
)
select held.key_hash,
       counted.added,
       counted.delayed_until,
       greatest(ceil(extract(epoch from held.delayed_until - now())), 0)::integer as wait_s
  from held
  left join counted using (key_hash)
 union all
select key_hash,
       null,
       null,
       ceil(extract(epoch from delayed_until - now()))::integer
  from already_delayed

-- name: undo_attempt
-- Undoes one attempt under a key, and the delay `delayed_until` that it caused unless a later attempt changed
-- it. Null keeps the delay.
update identity.throttle
   set forgotten_at = forgotten_at - %(added)s::interval,
       delayed_until = nullif(delayed_until, %(delayed_until)s::timestamptz)
 where key_hash = %(key_hash)s

-- name: delete_key
-- Deletes all counts of a key.
delete from identity.throttle
 where key_hash = %(key_hash)s

-- name: delete_idle_keys
-- Deletes at most `batch` keys that have no counts or delays left, and answers them.
with idle as (
    select key_hash
      from identity.throttle
     where forgotten_at <= now()
       and (delayed_until is null or delayed_until <= now())
     order by forgotten_at
     limit %(batch)s
       for update skip locked
)
delete from identity.throttle
 using idle
 where throttle.key_hash = idle.key_hash
returning throttle.key_hash
