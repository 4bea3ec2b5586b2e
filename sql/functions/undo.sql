-- Undoing an import: what it added first is removed, and the days of its sessions are summed up again. May run again at
-- any time.
--
--     the page ──request_undo──► undone, finished_at is null ──remove_undone, the worker──► undone, finished_at is set
--     svc import --undo ──remove_import, in one transaction───────────────────────────────►
--
-- Millions of rows take longer than a page may, so the page leaves the removal to the worker. It is one transaction: an
-- answer shows all records of the import or none, and a worker that is killed leaves all of them for the next one.

-- Removes the rows that an import added. What others refer to comes last, and stays as long as rows of other imports
-- refer to it. Sums of sessions that were removed because of their age (retention.sql) stay, since nothing says which of
-- them were of this import. It checks no rights, so it belongs to the owner.
create or replace function svc.remove_import(p_user_id uuid, p_import_id uuid)
returns void
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from health.sample
     where user_id = p_user_id
       and import_id = p_import_id;
    delete from health.heart_rate
     where user_id = p_user_id
       and import_id = p_import_id;
    delete from health.sleep
     where user_id = p_user_id
       and import_id = p_import_id;
    -- What comes again must be taken as new.
    delete from health.bucket
     where user_id = p_user_id
       and import_id = p_import_id;
    delete from health.sleep_stage
     where user_id = p_user_id
       and import_id = p_import_id;
    delete from health.message
     where user_id = p_user_id
       and import_id = p_import_id;
    delete from activity.screen_time
     where user_id = p_user_id
       and import_id = p_import_id;
    delete from music.listen
     where user_id = p_user_id
       and import_id = p_import_id;
    -- The days of points and visits are marked, as the import did.
    with removed as (
        delete from location.point
         where user_id = p_user_id
           and import_id = p_import_id
        returning recorded_at
    )
    insert into location.derivation_due (user_id, date)
    select p_user_id,
           (recorded_at at time zone 'UTC')::date
      from removed
     group by 2
     order by 2
        on conflict (user_id, date) do update
       set marked_at = greatest(now(), derivation_due.marked_at + interval '1 microsecond');
    -- Derived visits at its places go too, since a place stays as long as a visit refers to it.
    with removed as (
        delete from location.event
         where user_id = p_user_id
           and (
                   import_id = p_import_id
                   or source = 'derived'
                      and place_id in (
                          select place.place_id
                            from location.place
                           where place.user_id = p_user_id
                             and place.import_id = p_import_id
                      )
               )
        returning started_at,
                  coalesce(ended_at, started_at) as ended_at
    )
    insert into location.derivation_due (user_id, date)
    select p_user_id,
           (day at time zone 'UTC')::date
      from removed
     cross join lateral generate_series(
               date_trunc('day', removed.started_at, 'UTC'),
               least(removed.ended_at, removed.started_at + interval '31 days'),
               interval '24 hours'
           ) as day
     union
    select p_user_id,
           (removed.ended_at at time zone 'UTC')::date
      from removed
     order by 2
        on conflict (user_id, date) do update
       set marked_at = greatest(now(), derivation_due.marked_at + interval '1 microsecond');
    delete from content.recording
     where user_id = p_user_id
       and import_id = p_import_id;
    delete from content.play
     where user_id = p_user_id
       and import_id = p_import_id;
    delete from content.calendar_event
     where user_id = p_user_id
       and import_id = p_import_id;
    delete from code.event
     where user_id = p_user_id
       and import_id = p_import_id;
    delete from location.place
     where user_id = p_user_id
       and import_id = p_import_id
       and not exists (
               select
                 from location.event as referring
                where referring.user_id = p_user_id
                  and referring.place_id = place.place_id
           );
    delete from content.title
     where user_id = p_user_id
       and import_id = p_import_id
       and not exists (
               select
                 from content.play as referring
                where referring.user_id = p_user_id
                  and referring.title_id = title.title_id
           );
    delete from content.calendar
     where user_id = p_user_id
       and import_id = p_import_id
       and not exists (
               select
                 from content.calendar_event as referring
                where referring.user_id = p_user_id
                  and referring.calendar_id = calendar.calendar_id
           );

    delete from activity.beat
     where user_id = p_user_id
       and import_id = p_import_id;

    -- The days of sessions are marked, as ingest does when it writes them; what each device has sent is counted again.
    with removed as (
        delete from activity.app_session
         where user_id = p_user_id
           and import_id = p_import_id
        returning device_id,
                  started_at,
                  ended_at
    ),
    touched as (
        select distinct edge.date
          from removed
         cross join lateral (
                   values ((removed.started_at at time zone 'UTC')::date),
                          (
                              (
                                  greatest(removed.ended_at - interval '1 millisecond', removed.started_at)
                                  at time zone 'UTC'
                              )::date
                          )
               ) as edge (date)
    ),
    to_sum_up as (
        insert into activity.summary_due (user_id, date)
        select p_user_id,
               touched.date
          from touched
         order by touched.date
            on conflict (user_id, date) do update
           set marked_at = greatest(now(), summary_due.marked_at + interval '1 microsecond')
    ),
    rolled_up as (
        insert into activity.rollup_due (user_id, date)
        select p_user_id,
               touched.date
          from touched
         -- Days whose sessions have been removed keep their rollups.
         where touched.date >= coalesce(
                   (select removed_before from activity.raw_limit where user_id = p_user_id), '-infinity'
               )
         order by touched.date
            on conflict (user_id, date) do update
           set marked_at = now(),
               is_left_raw = false
    )
    update activity.device_stream
       set event_count = device_stream.event_count - gone.count
      from (
               select device_id,
                      count(*) as count
                 from removed
                group by device_id
           ) as gone
     where device_stream.user_id = p_user_id
       and device_stream.device_id = gone.device_id
       and device_stream.stream = 'app_sessions';
    with removed as (
        delete from activity.coding_session
         where user_id = p_user_id
           and import_id = p_import_id
        returning device_id,
                  started_at,
                  ended_at
    ),
    touched as (
        select distinct edge.date
          from removed
         cross join lateral (
                   values ((removed.started_at at time zone 'UTC')::date),
                          (
                              (
                                  greatest(removed.ended_at - interval '1 millisecond', removed.started_at)
                                  at time zone 'UTC'
                              )::date
                          )
               ) as edge (date)
    ),
    to_sum_up as (
        insert into activity.summary_due (user_id, date)
        select p_user_id,
               touched.date
          from touched
         order by touched.date
            on conflict (user_id, date) do update
           set marked_at = greatest(now(), summary_due.marked_at + interval '1 microsecond')
    ),
    rolled_up as (
        insert into activity.rollup_due (user_id, date)
        select p_user_id,
               touched.date
          from touched
         -- Days whose sessions have been removed keep their rollups.
         where touched.date >= coalesce(
                   (select removed_before from activity.raw_limit where user_id = p_user_id), '-infinity'
               )
         order by touched.date
            on conflict (user_id, date) do update
           set marked_at = now(),
               is_left_raw = false
    )
    update activity.device_stream
       set event_count = device_stream.event_count - gone.count
      from (
               select device_id,
                      count(*) as count
                 from removed
                group by device_id
           ) as gone
     where device_stream.user_id = p_user_id
       and device_stream.device_id = gone.device_id
       and device_stream.stream = 'coding_sessions';
end
$$;

-- Marks an import of the signed-in person as undone, and makes the removal of its records due. Returns null; 'running'
-- while it is read, since its records would come after the removal; 'gone' if there is none that could be undone; or
-- 'signed_out' if the session is not valid, or authenticated more than a quarter of an hour ago.
-- A run takes the row of its import over by an update, so the row is locked before its status is looked at.
create or replace function svc.request_undo(p_user_id uuid, p_session_hash bytea, p_import_id uuid)
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    reached text;
begin
    if not svc.is_freshly_signed_in(p_user_id, p_session_hash) then
        return 'signed_out';
    end if;
    select import.status
      into reached
      from profile.import
     where import.user_id = p_user_id
       and import.import_id = p_import_id
       and import.connection_id is null
       for update;
    if reached = 'running' and svc.is_being_read(p_user_id, p_import_id) then
        return 'running';
    elsif reached is null or reached = 'undone' then
        return 'gone';
    end if;
    update profile.import
       set status = 'undone',
           key_hash = null,
           finished_at = null
     where import.user_id = p_user_id
       and import.import_id = p_import_id;
    -- An interrupted import must not be continued from its file.
    update profile.upload
       set status = 'ended',
           ended_at = now(),
           problem = 'canceled'
     where upload.user_id = p_user_id
       and upload.import_id = p_import_id
       and upload.status = 'taken';
    perform svc.make_due(p_user_id, 'undo');
    return null;
end
$$;

-- Removes the records of all imports of a person that are marked as undone, and returns how many imports these were.
-- Raises 57SV1 and 57SV2 if the worker's version does not fit the schema (versions.sql).
create or replace function svc.remove_undone(p_user_id uuid, p_version integer)
returns integer
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    undone  uuid;
    removed integer := 0;
begin
    perform svc.check_version(p_version);
    for undone in
        select import.import_id
          from profile.import
         where import.user_id = p_user_id
           and import.status = 'undone'
           and import.finished_at is null
           for update
    loop
        perform svc.remove_import(p_user_id, undone);
        update profile.import
           set finished_at = now()
         where import.user_id = p_user_id
           and import.import_id = undone;
        removed := removed + 1;
    end loop;
    return removed;
end
$$;
