-- The limit on the devices of a person, and the functions of the page about them. May run again at any time.

-- Makes the batches of one person that add devices wait for each other, until the transaction ends. Each then
-- counts the devices that the one before has added, so that together they stay within the limit
-- (resourceserver/ingest/ingest.sql). With less than a tenth of `p_most` devices afterwards, a batch does not
-- wait: the first batch of a new device must not be delayed by one that is stuck, and the few batches that run at
-- the same time cannot reach the limit together.
-- Keep it a statement of its own, before the one that counts: only the next statement sees what was committed
-- during the wait.
create or replace function svc.lock_new_devices(p_devices json, p_most integer)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    owner_id constant uuid := coalesce(svc.import_user_id(), svc.session_user_id());
    added bigint;
begin
    select count(*)
      into added
      from json_to_recordset(p_devices) as sent (name text)
     where not exists (
               select
                 from activity.device
                where device.user_id = owner_id
                  and device.name = sent.name
           );
    if added > 0
        and added + (select count(*) from activity.device where user_id = owner_id) > p_most / 10
    then
        perform pg_advisory_xact_lock(hashtextextended('svc.device ' || owner_id, 0));
    end if;
end
$$;

-- The devices of the signed-in person, or the device `p_device_id` alone; no row: none, or the session is not valid.
-- Retired ones come last, before them those whose newest event is latest. A device that has sent something since it
-- was retired is in use again.
create or replace function svc.devices(
    p_user_id      uuid,
    p_session_hash bytea,
    p_most         integer,
    p_skipped      integer default 0,
    p_device_id    uuid default null
)
returns table (
    device_id     uuid,
    name          text,
    display_name  text,
    platform      text,
    source        text,
    first_seen_at timestamptz,
    last_event_at timestamptz,
    event_count   bigint,
    retired_at    timestamptz
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
begin atomic
    select device.device_id,
           device.name,
           device.display_name,
           device.platform,
           stream.source,
           device.first_seen_at,
           stream.last_event_at,
           coalesce(stream.event_count, 0),
           stream.retired_at
      from activity.device
     cross join lateral (
               select (array_agg(sent.source order by sent.last_sync_at desc nulls last, sent.stream))[1] as source,
                      max(sent.last_event_at) as last_event_at,
                      sum(sent.event_count)::bigint as event_count,
                      case
                          when (max(sent.last_sync_at) > device.retired_at) is not true then device.retired_at
                      end as retired_at
                 from activity.device_stream as sent
                where sent.user_id = p_user_id
                  and sent.device_id = device.device_id
           ) as stream
     where device.user_id = p_user_id
       and svc.is_signed_in(p_user_id, p_session_hash)
       and (p_device_id is null or device.device_id = p_device_id)
     order by stream.retired_at is not null,
              stream.last_event_at desc nulls last,
              device.first_seen_at desc,
              device.device_id
     limit least(p_most, 1000)
    offset greatest(p_skipped, 0);
end;

-- Gives a device of the signed-in person another name for people, or with null none. The name by which trackers know
-- it remains. False: there is no such device, or the session is not valid.
create or replace function svc.rename_device(
    p_user_id      uuid,
    p_session_hash bytea,
    p_device_id    uuid,
    p_display_name text
)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.begin_setting_change(p_user_id, p_session_hash) then
        return false;
    end if;
    update activity.device
       set display_name = p_display_name
     where device.user_id = p_user_id
       and device.device_id = p_device_id;
    return found;
end
$$;

-- Retires a device of the signed-in person, or ends that. Its records remain. False: there is no such device, or the
-- session is not valid.
create or replace function svc.retire_device(
    p_user_id      uuid,
    p_session_hash bytea,
    p_device_id    uuid,
    p_is_retired   boolean
)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.begin_setting_change(p_user_id, p_session_hash) then
        return false;
    end if;
    update activity.device
       set retired_at = case when p_is_retired then now() end
     where device.user_id = p_user_id
       and device.device_id = p_device_id;
    return found;
end
$$;
