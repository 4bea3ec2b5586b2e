-- name: recent_addresses
-- The addresses where somebody is signed in, or signed in of late.
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
-- A row for each key that has none yet, so that the next statement of the transaction can lock all of
-- them. While one of the keys is delayed none is made: who is refused leaves nothing behind.
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
-- Counts an attempt under all of its keys, or under none where one of them is delayed; a row for each
-- key, or for those that are delayed, with how long they still are. Rows are locked in the order of
-- their keys, so that rivals wait for each other in turn and each sees what the one before it left.
--
-- Ten doublings of a second are more than the longest delay. What comes after them is not added up: so
-- the same time as ever is enough to forget it, and no power is too large.
with attempted as (
    select key_hash,
           free
      from unnest(%(key_hashes)s::bytea[], %(free)s::integer[]) as attempted (key_hash, free)
),
already_delayed as (
    -- Who is refused anyway need not lock what others wait for.
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
risen as (
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
levelled as (
    select key_hash,
           free,
           forgotten_at,
           forgotten_at - was_forgotten_at as added,
           ceil(
               extract(epoch from forgotten_at - now()) / extract(epoch from %(forgotten_after)s::interval)
           )::integer as level
      from risen
),
counted as (
    update identity.throttle
       set forgotten_at = levelled.forgotten_at,
           delayed_until = case
               when levelled.level >= levelled.free
               then now() + least(
                        power(2, levelled.level - levelled.free) * interval '1 second',
                        interval '15 minutes'
                    )
           end
      from levelled
     where throttle.key_hash = levelled.key_hash
    returning throttle.key_hash,
              throttle.delayed_until,
              levelled.added
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
-- One attempt less under a key, and without the delay that it caused, unless another has come since.
update identity.throttle
   set forgotten_at = forgotten_at - %(added)s::interval,
       delayed_until = nullif(delayed_until, %(delayed_until)s::timestamptz)
 where key_hash = %(key_hash)s

-- name: delete_key
-- Everything that was counted under a key.
delete from identity.throttle
 where key_hash = %(key_hash)s

-- name: delete_idle_keys
-- Removes keys without anything left to remember, at most so many, and answers them.
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
