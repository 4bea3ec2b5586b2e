-- Removing what one import brought first. Statements of the owner of the tables, in one transaction, in this order:
-- what others refer to comes last, and stays as long as rows of other imports refer to it.

-- name: remove_health_sample
-- Removes the rows that the import brought.
delete from health.sample
 where user_id = %(user_id)s
   and import_id = %(import_id)s

-- name: remove_health_heart_rate
-- Removes the rows that the import brought.
delete from health.heart_rate
 where user_id = %(user_id)s
   and import_id = %(import_id)s

-- name: remove_health_sleep
-- Removes the rows that the import brought.
delete from health.sleep
 where user_id = %(user_id)s
   and import_id = %(import_id)s

-- name: remove_music_listen
-- Removes the rows that the import brought.
delete from music.listen
 where user_id = %(user_id)s
   and import_id = %(import_id)s

-- name: remove_location_point
-- Removes the rows that the import brought.
delete from location.point
 where user_id = %(user_id)s
   and import_id = %(import_id)s

-- name: remove_location_event
-- Removes the rows that the import brought.
delete from location.event
 where user_id = %(user_id)s
   and import_id = %(import_id)s

-- name: remove_content_recording
-- Removes the rows that the import brought.
delete from content.recording
 where user_id = %(user_id)s
   and import_id = %(import_id)s

-- name: remove_content_play
-- Removes the rows that the import brought.
delete from content.play
 where user_id = %(user_id)s
   and import_id = %(import_id)s

-- name: remove_content_calendar_event
-- Removes the rows that the import brought.
delete from content.calendar_event
 where user_id = %(user_id)s
   and import_id = %(import_id)s

-- name: remove_code_event
-- Removes the rows that the import brought.
delete from code.event
 where user_id = %(user_id)s
   and import_id = %(import_id)s

-- name: remove_location_place
-- Removes the rows that the import brought and that no other row refers to.
delete from location.place
 where user_id = %(user_id)s
   and import_id = %(import_id)s
   and not exists (
           select
             from location.event as referring
            where referring.user_id = %(user_id)s
              and referring.place_id = place.place_id
       )

-- name: remove_content_title
-- Removes the rows that the import brought and that no other row refers to.
delete from content.title
 where user_id = %(user_id)s
   and import_id = %(import_id)s
   and not exists (
           select
             from content.play as referring
            where referring.user_id = %(user_id)s
              and referring.title_id = title.title_id
       )

-- name: remove_content_calendar
-- Removes the rows that the import brought and that no other row refers to.
delete from content.calendar
 where user_id = %(user_id)s
   and import_id = %(import_id)s
   and not exists (
           select
             from content.calendar_event as referring
            where referring.user_id = %(user_id)s
              and referring.calendar_id = calendar.calendar_id
       )

-- name: remove_activity_app_session
-- Removes the sessions that the import brought, and marks their days, as ingest does when it writes them; what each
-- device has sent is counted again.
with removed as (
    delete from activity.app_session
     where user_id = %(user_id)s
       and import_id = %(import_id)s
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
    select %(user_id)s::uuid,
           touched.date
      from touched
     order by touched.date
        on conflict (user_id, date) do update
       set marked_at = greatest(now(), summary_due.marked_at + interval '1 microsecond')
),
rolled_up as (
    insert into activity.rollup_due (user_id, date)
    select %(user_id)s::uuid,
           touched.date
      from touched
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
 where device_stream.user_id = %(user_id)s
   and device_stream.device_id = gone.device_id
   and device_stream.stream = 'app_sessions'

-- name: remove_activity_coding_session
-- Removes the sessions that the import brought, and marks their days, as ingest does when it writes them; what each
-- device has sent is counted again.
with removed as (
    delete from activity.coding_session
     where user_id = %(user_id)s
       and import_id = %(import_id)s
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
    select %(user_id)s::uuid,
           touched.date
      from touched
     order by touched.date
        on conflict (user_id, date) do update
       set marked_at = greatest(now(), summary_due.marked_at + interval '1 microsecond')
),
rolled_up as (
    insert into activity.rollup_due (user_id, date)
    select %(user_id)s::uuid,
           touched.date
      from touched
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
 where device_stream.user_id = %(user_id)s
   and device_stream.device_id = gone.device_id
   and device_stream.stream = 'coding_sessions'
