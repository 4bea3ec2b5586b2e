-- The limit on the devices of a person. May run again at any time.

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
