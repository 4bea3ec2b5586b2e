-- Writing where people were.

-- name: add_location_devices
-- Adds what recorded places, as far as it is new.
insert into location.device (user_id, name, platform)
select %(user_id)s,
       sent.name,
       sent.platform
  from unnest(%(names)s::text[], %(platforms)s::text[]) as sent (name, platform)
 order by sent.name collate "C"
    on conflict (user_id, name) do nothing

-- name: location_devices
-- The devices of these names. The lock keeps them until the transaction has written their points, which no foreign
-- key does (sql/migrations/0030_unchecked_references.sql).
select device_id,
       name
  from location.device
 where user_id = %(user_id)s
   and name = any (%(names)s::text[])
   for key share

-- name: put_places
-- Writes places. The newer wins: people rename places and correct where they are. Coordinates, by which readers name a
-- place without a name, never replace a name that another file has, and what a file does not say replaces nothing: of
-- the files of one source, one has addresses and another has not.
with written as (
    insert into location.place (
        user_id,
        place_id,
        source,
        provider_key,
        import_id,
        name,
        category,
        latitude,
        longitude,
        address,
        city,
        country_code
    )
    select %(user_id)s,
           sent.id::uuid,
           %(source)s,
           sent.key,
           %(import_id)s,
           sent.name,
           sent.category,
           sent.latitude::double precision,
           sent.longitude::double precision,
           sent.address,
           sent.city,
           sent.country_code
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(id)s::json),
               json_array_elements_text(%(name)s::json),
               json_array_elements_text(%(category)s::json),
               json_array_elements_text(%(latitude)s::json),
               json_array_elements_text(%(longitude)s::json),
               json_array_elements_text(%(address)s::json),
               json_array_elements_text(%(city)s::json),
               json_array_elements_text(%(country_code)s::json)
           ) as sent (
               key,
               id,
               name,
               category,
               latitude,
               longitude,
               address,
               city,
               country_code
           )
     order by sent.key collate "C"
        on conflict (user_id, source, provider_key) do update
       set name = case
               when excluded.name ~ '^-?[0-9.]+, ?-?[0-9.]+$'
                and place.name !~ '^-?[0-9.]+, ?-?[0-9.]+$'
               then place.name
               else excluded.name
           end,
           category = coalesce(excluded.category, place.category),
           latitude = coalesce(excluded.latitude, place.latitude),
           longitude = coalesce(excluded.longitude, place.longitude),
           address = coalesce(excluded.address, place.address),
           city = coalesce(excluded.city, place.city),
           country_code = coalesce(excluded.country_code, place.country_code)
     where (
               place.name,
               place.category,
               place.latitude,
               place.longitude,
               place.address,
               place.city,
               place.country_code
           ) is distinct from (
               case
                   when excluded.name ~ '^-?[0-9.]+, ?-?[0-9.]+$'
                    and place.name !~ '^-?[0-9.]+, ?-?[0-9.]+$'
                   then place.name
                   else excluded.name
               end,
               coalesce(excluded.category, place.category),
               coalesce(excluded.latitude, place.latitude),
               coalesce(excluded.longitude, place.longitude),
               coalesce(excluded.address, place.address),
               coalesce(excluded.city, place.city),
               coalesce(excluded.country_code, place.country_code)
           )
    returning provider_key,
              xmax = 0 as is_new
)
select provider_key,
       is_new
  from written

-- name: places
-- The places of these keys.
select place_id,
       provider_key
  from location.place
 where user_id = %(user_id)s
   and source = %(source)s
   and provider_key = any (%(keys)s::text[])

-- fragment: insert_points
insert into location.point (
    user_id,
    point_id,
    source,
    provider_key,
    import_id,
    device_id,
    recorded_at,
    latitude,
    longitude,
    accuracy_m,
    altitude_m,
    vertical_accuracy_m,
    speed_mps,
    course_deg,
    battery_percent,
    activity,
    timezone
)
select %(user_id)s,
       sent.id,
       %(source)s,
       sent.key,
       %(import_id)s,
       (%(device_ids)s::uuid[])[sent.device],
       sent.recorded_at,
       sent.latitude,
       sent.longitude,
       sent.accuracy_m,
       sent.altitude_m,
       sent.vertical_accuracy_m,
       sent.speed_mps,
       sent.course_deg,
       sent.battery_percent::smallint,
       sent.activity,
       sent.timezone
  from rows from (
           unnest(%(key)s::text[]),
           unnest(%(id)s::uuid[]),
           unnest(%(device)s::integer[]),
           unnest(%(recorded_at)s::timestamptz[]),
           unnest(%(latitude)s::double precision[]),
           unnest(%(longitude)s::double precision[]),
           unnest(%(accuracy_m)s::double precision[]),
           unnest(%(altitude_m)s::double precision[]),
           unnest(%(vertical_accuracy_m)s::double precision[]),
           unnest(%(speed_mps)s::double precision[]),
           unnest(%(course_deg)s::double precision[]),
           unnest(%(battery_percent)s::integer[]),
           unnest(%(activity)s::text[]),
           unnest(%(timezone)s::text[])
       ) as sent (
           key,
           id,
           device,
           recorded_at,
           latitude,
           longitude,
           accuracy_m,
           altitude_m,
           vertical_accuracy_m,
           speed_mps,
           course_deg,
           battery_percent,
           activity,
           timezone
       )

-- name: add_new_points
-- Writes points, which have different keys. No row: some may be known, because a known key lies between the first
-- and the last of them. This spares the search for each key by `add_points`. A key that another transaction
-- adds at this moment violates the constraint.
--include insert_points
 where not exists (
           select
             from (
                    select min(key collate "C") as first_key,
                           max(key collate "C") as last_key
                      from unnest(%(key)s::text[]) as each (key)
                  ) as extent
            cross join lateral (
                      select 1
                        from location.point
                       where user_id = %(user_id)s
                         and source = %(source)s
                         and provider_key >= extent.first_key
                         and provider_key <= extent.last_key
                       limit 1
                  ) as known
       )
 order by sent.key collate "C"

-- name: add_points
-- Writes points, and returns the number of the new ones and their days. The first wins: where a person was does not
-- change.
with added as (
--include insert_points
     order by sent.key collate "C"
        on conflict (user_id, source, provider_key) do nothing
    returning recorded_at
)
select count(*),
       array_agg(distinct (recorded_at at time zone 'UTC')::date)
  from added

-- name: put_place_events
-- Writes check-ins and visits, and returns the days of what is new and of what has changed, before and after: of each,
-- the days of its first month and the last one. The newer wins: a visit is confirmed or declined later, and its end may
-- be corrected.
with written as (
    insert into location.event (
        user_id,
        event_id,
        source,
        provider_key,
        import_id,
        type,
        status,
        started_at,
        ended_at,
        utc_offset,
        place_id,
        note
    )
    select %(user_id)s,
           sent.id::uuid,
           %(source)s,
           sent.key,
           %(import_id)s,
           sent.type,
           sent.status,
           timestamptz 'epoch' + sent.started_at::bigint * interval '1 millisecond',
           timestamptz 'epoch' + sent.ended_at::bigint * interval '1 millisecond',
           sent.utc_offset,
           (%(place_ids)s::uuid[])[sent.place::integer],
           sent.note
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(id)s::json),
               json_array_elements_text(%(type)s::json),
               json_array_elements_text(%(status)s::json),
               json_array_elements_text(%(started_at)s::json),
               json_array_elements_text(%(ended_at)s::json),
               json_array_elements_text(%(utc_offset)s::json),
               json_array_elements_text(%(place)s::json),
               json_array_elements_text(%(note)s::json)
           ) as sent (
               key,
               id,
               type,
               status,
               started_at,
               ended_at,
               utc_offset,
               place,
               note
           )
     order by sent.key collate "C"
        on conflict (user_id, source, provider_key) do update
       set type = excluded.type,
           status = excluded.status,
           started_at = excluded.started_at,
           ended_at = excluded.ended_at,
           utc_offset = excluded.utc_offset,
           place_id = excluded.place_id,
           note = excluded.note
     where (
               event.type,
               event.status,
               event.started_at,
               event.ended_at,
               event.utc_offset,
               event.place_id,
               event.note
           ) is distinct from (
               excluded.type,
               excluded.status,
               excluded.started_at,
               excluded.ended_at,
               excluded.utc_offset,
               excluded.place_id,
               excluded.note
           )
    returning provider_key,
              started_at,
              ended_at,
              xmax = 0 as is_new
)
select written.provider_key,
       written.is_new,
       array(
           select day::date
             from (
                      values (written.started_at, coalesce(written.ended_at, written.started_at)),
                             (before.started_at, coalesce(before.ended_at, before.started_at))
                  ) as visit (started_at, ended_at)
            cross join lateral generate_series(
                      date_trunc('day', visit.started_at, 'UTC'),
                      least(visit.ended_at, visit.started_at + interval '31 days'),
                      interval '24 hours'
                  ) as day
            union
           select (greatest(written.ended_at, before.ended_at) at time zone 'UTC')::date
            where written.ended_at is not null
               or before.ended_at is not null
       )
  from written
  -- The row as it was before this statement.
  left join location.event as before
    on before.user_id = %(user_id)s
   and before.source = %(source)s
   and before.provider_key = written.provider_key

-- name: mark_days
-- Marks days of which visits, zones and offsets have to be derived again (resourceserver/derived).
insert into location.derivation_due (user_id, date)
select %(user_id)s,
       day
  from unnest(%(dates)s::date[]) as day
 order by day
    on conflict (user_id, date) do update
   set marked_at = greatest(now(), derivation_due.marked_at + interval '1 microsecond')
