-- What follows from where a person was, written by a job of the worker (derivation.py). One transaction is about one
-- person, and begins with `begin_for`.

-- name: people_due
-- Up to :limit people with days to derive again, in order of their ids, after one id (sql/functions/derived.sql).
select svc.people_with_derivation_due(%(after)s, %(quiet)s, %(limit)s, %(version)s)

-- name: begin_for
-- Opens the transaction of a job for one person (sql/policies.sql).
call svc.open_job(%(user_id)s, %(version)s)

-- name: take_turn
-- Whether this transaction is the only one that derives for the person; true reserves that until it ends. Of two that
-- derive the same days, one could overwrite what the other has made of newer points.
select pg_try_advisory_xact_lock(hashtextextended('visits of ' || %(user_id)s::uuid, 0))

-- name: wait_longer
-- Lets a command wait for a job that is at work on the person.
set local lock_timeout = '60s'

-- name: read_by_index
-- Statements read some days of a history. The planner would rather read the whole table, as for the reader (sql/roles.sql).
set local enable_seqscan = off

-- name: await_turn
-- Like `take_turn`, but waits until no other transaction derives for the person.
select pg_advisory_xact_lock(hashtextextended('visits of ' || %(user_id)s::uuid, 0))

-- name: zone_of_profile
-- The person's time zone. No row: the account is deleted.
select timezone
  from identity.user
 where user_id = %(user_id)s

-- name: read_marks
-- Marked days after one date, in order, with the times of their marks, if these are old enough. No lock is taken, so no
-- import waits. A mark is visible only when its transaction is committed, so the statements after this one see the rows
-- of that transaction.
select date,
       marked_at
  from location.derivation_due
 where user_id = %(user_id)s
   and date > %(after)s::date
   and marked_at <= now() - %(quiet)s::interval
 order by date
 limit %(limit)s::bigint

-- name: many_points_at
-- When the person has had :points points since an instant. No row: there are fewer.
select recorded_at
  from location.point
 where user_id = %(user_id)s
   and recorded_at >= %(from)s::timestamptz
 order by recorded_at
offset %(points)s::bigint
 limit 1

-- name: remove_marks
-- Removes the marks that were read, as the last statement of a transaction. A mark that has been set again since, or
-- is being set now, stays for the next turn: its change may not have been read.
delete
  from location.derivation_due
 where user_id = %(user_id)s
   and date = any (
           array(
               select due.date
                 from location.derivation_due as due
                 join unnest(%(dates)s::date[], %(marked_at)s::timestamptz[]) as mark (date, marked_at)
                   on mark.date = due.date
                  and mark.marked_at = due.marked_at
                where due.user_id = %(user_id)s
                order by due.date
                  for update of due skip locked
           )
       )

-- name: last_visit_before
-- The last visit that points from :from on cannot change, and whether a source states it. A derived one may be longer
-- because of points that come soon after it; :since is before all of these.
select ended_at,
       source <> 'derived' as is_stated
  from location.event
 where user_id = %(user_id)s
   and type = 'visit'
   and started_at < %(from)s::timestamptz
   and ended_at > started_at
   and ended_at <= case source when 'derived' then %(since)s::timestamptz else %(from)s::timestamptz end
 order by started_at desc
 limit 1

-- name: points_from
-- The next points that are exact enough, in order of time; the most exact one of each instant.
select distinct on (recorded_at) round(date_part('epoch', recorded_at) * 1000)::bigint as at,
       latitude,
       longitude,
       accuracy_m
  from location.point
 where user_id = %(user_id)s
   and recorded_at >= %(from)s::timestamptz
   and (accuracy_m is null or accuracy_m <= 100)
 order by recorded_at,
          accuracy_m,
          latitude,
          longitude
 limit %(limit)s::bigint

-- name: visits_between
-- The visits of one kind, stated or derived, that overlap a range, in order: ids, instants, keys and places. Declined
-- visits are stated too: they say that a guess was wrong. Visits may be long; see location_events.
select event_id,
       round(date_part('epoch', started_at) * 1000)::bigint as started_at,
       round(date_part('epoch', ended_at) * 1000)::bigint as ended_at,
       provider_key,
       place_id
  from (
           select event.*
             from location.event
            where user_id = %(user_id)s
              and started_at > %(from)s::timestamptz - interval '24 hours'
              and started_at < %(to)s::timestamptz
            union all
           select event.*
             from location.event
            where user_id = %(user_id)s
              and ended_at - started_at > interval '24 hours'
              and ended_at > %(from)s::timestamptz
              and started_at <= %(from)s::timestamptz - interval '24 hours'
           -- Without this, the planner reads all visits of one kind by the index of their keys.
           offset 0
       ) as near
 where type = 'visit'
   and (source = 'derived') = %(is_derived)s::boolean
   and ended_at > started_at
   and ended_at > %(from)s::timestamptz
 order by near.started_at,
          near.ended_at

-- name: has_visit
-- Whether a derived visit with this key is stored.
select exists (
           select
             from location.event
            where user_id = %(user_id)s
              and source = 'derived'
              and provider_key = %(key)s
       )

-- name: check_ins_between
-- The check-ins of a range, in order of time, at places with a position.
select round(date_part('epoch', event.started_at) * 1000)::bigint as at,
       place.place_id,
       place.latitude,
       place.longitude
  from location.event
  join location.place
    on place.user_id = %(user_id)s
   and place.place_id = event.place_id
 where event.user_id = %(user_id)s
   and event.type = 'check_in'
   and event.started_at >= %(from)s::timestamptz
   and event.started_at < %(to)s::timestamptz
   and place.latitude is not null
   and place.longitude is not null
 order by event.started_at,
          event.event_id

-- name: known_places
-- The places with a position, and whether each was derived.
select place_id,
       latitude,
       longitude,
       source = 'derived' as is_derived
  from location.place
 where user_id = %(user_id)s
   and latitude is not null
   and longitude is not null
 order by source = 'derived',
          place_id

-- name: visited_places
-- The places of visits and check-ins: whether a derived visit is there, and one that a source states. Not joined to `known_places`: before
-- Postgres has counted the rows of a first import, it would compare each place with each visit.
select place_id,
       bool_or(source = 'derived') as is_used,
       bool_or(source <> 'derived' and type = 'visit' and status <> 'declined') as is_stated
  from location.event
 where user_id = %(user_id)s
 group by place_id

-- name: add_places
-- Adds places, named by their coordinates.
insert into location.place (
    user_id,
    place_id,
    source,
    provider_key,
    name,
    latitude,
    longitude
)
select %(user_id)s,
       new.place_id,
       'derived',
       new.key,
       new.name,
       new.latitude,
       new.longitude
  from unnest(
           %(place_ids)s::uuid[],
           %(keys)s::text[],
           %(names)s::text[],
           %(latitudes)s::double precision[],
           %(longitudes)s::double precision[]
       ) as new (place_id, key, name, latitude, longitude)

-- name: remove_visits
-- Removes visits that are derived no more.
delete from location.event
 where user_id = %(user_id)s
   and event_id = any (%(event_ids)s::uuid[])

-- name: add_visits
-- Adds derived visits.
insert into location.event (
    user_id,
    source,
    provider_key,
    type,
    status,
    started_at,
    ended_at,
    utc_offset,
    place_id
)
select %(user_id)s,
       'derived',
       new.started_at || '-' || new.ended_at,
       'visit',
       'suggested',
       timestamptz 'epoch' + new.started_at * interval '1 millisecond',
       timestamptz 'epoch' + new.ended_at * interval '1 millisecond',
       new.utc_offset,
       new.place_id
  from unnest(
           %(started_at)s::bigint[],
           %(ended_at)s::bigint[],
           %(utc_offsets)s::text[],
           %(place_ids)s::uuid[]
       ) as new (started_at, ended_at, utc_offset, place_id)
    on conflict (user_id, source, provider_key) do nothing

-- name: move_visits
-- Moves derived visits from one place to another.
update location.event
   set place_id = moved.new_id
  from unnest(%(old_ids)s::uuid[], %(new_ids)s::uuid[]) as moved (old_id, new_id)
 where event.user_id = %(user_id)s
   and event.source = 'derived'
   and event.place_id = moved.old_id

-- name: move_visit
-- Moves some derived visits, each to a place of its own.
update location.event
   set place_id = moved.place_id
  from unnest(%(event_ids)s::uuid[], %(place_ids)s::uuid[]) as moved (event_id, place_id)
 where event.user_id = %(user_id)s
   and event.event_id = moved.event_id

-- name: remove_places
-- Removes derived places at which no visit is.
delete from location.place
 where user_id = %(user_id)s
   and source = 'derived'
   and place_id = any (%(place_ids)s::uuid[])
   and not exists (
           select
             from location.event
            where event.user_id = %(user_id)s
              and event.place_id = place.place_id
       )

-- name: points_without_zone
-- Points of a range whose time zone was not looked up when they were written.
select point_id,
       latitude,
       longitude
  from location.point
 where user_id = %(user_id)s
   and recorded_at >= %(from)s::timestamptz
   and recorded_at < %(to)s::timestamptz
   and timezone is null
 limit %(limit)s::bigint

-- name: set_zones
-- Writes the time zones of points.
update location.point
   set timezone = located.timezone
  from unnest(%(point_ids)s::uuid[], %(zones)s::text[]) as located (point_id, timezone)
 where point.user_id = %(user_id)s
   and point.point_id = located.point_id

-- name: sleeps_between
-- The sleeps that ended in a range and whose source did not say the offset of local time: when each ended, the offset
-- that is stored, and where the person was last known to be before its end, by a point or at a visit or check-in, at
-- most two days before.
select sleep.sleep_id,
       sleep.ended_at,
       sleep.utc_offset,
       known.latitude,
       known.longitude
  from (
           select sleep_id,
                  ended_at,
                  utc_offset,
                  ended_at - interval '48 hours' as since
             from health.sleep
            where user_id = %(user_id)s
              and ended_at >= %(from)s::timestamptz
              and ended_at < %(to)s::timestamptz
              and is_offset_derived
           offset 0
       ) as sleep
  left join lateral (
           select near.at,
                  near.latitude,
                  near.longitude
             from (
                      (
                          select recorded_at as at,
                                 latitude,
                                 longitude
                            from location.point
                           where user_id = %(user_id)s
                             and recorded_at >= sleep.since
                             and recorded_at <= sleep.ended_at
                             and (accuracy_m is null or accuracy_m <= 10000)
                           order by recorded_at desc
                           limit 1
                      )
                       union all
                      select least(coalesce(event.ended_at, event.started_at), sleep.ended_at) as at,
                             place.latitude,
                             place.longitude
                        from (
                                 select place_id,
                                        started_at,
                                        ended_at
                                   from location.event
                                  where user_id = %(user_id)s
                                    and started_at > sleep.since - interval '24 hours'
                                    and started_at <= sleep.ended_at
                                    and coalesce(ended_at, started_at) >= sleep.since
                                    and status <> 'declined'
                                  union all
                                 select place_id,
                                        started_at,
                                        ended_at
                                   from location.event
                                  where user_id = %(user_id)s
                                    and ended_at - started_at > interval '24 hours'
                                    and ended_at > sleep.since
                                    and started_at <= sleep.since - interval '24 hours'
                                    and status <> 'declined'
                             ) as event
                        join location.place
                          on place.user_id = %(user_id)s
                         and place.place_id = event.place_id
                       where place.latitude is not null
                         and place.longitude is not null
                  ) as near
            order by near.at desc,
                     near.latitude,
                     near.longitude
            limit 1
       ) as known on true

-- name: set_offsets
-- Writes the offsets of local time of sleeps.
update health.sleep
   set utc_offset = located.utc_offset
  from unnest(%(sleep_ids)s::uuid[], %(offsets)s::text[]) as located (sleep_id, utc_offset)
 where sleep.user_id = %(user_id)s
   and sleep.sleep_id = located.sleep_id
