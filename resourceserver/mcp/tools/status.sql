-- name: status_frame
-- The last fourteen days.
--include answer
with frame as (
    with
--include today
    frame as (
        select tz,
               date as today,
               week_starts_on,
               date - 13 as first_day,
               date as last_day
          from today
    )
    select frame.*,
           svc.day_start(first_day, tz) as starts_at,
           svc.day_start(last_day + 1, tz) as ends_at,
--include frame_scopes
      from frame
),
--include framed
--include end_of_answer

-- name: get_data_status
-- The data of the caller that the token may read. Whether there is other data, and how much, is not disclosed.
--include answer
with
--include frame
held as (
    select %(frame_scopes)s::text[] as scopes
),
visible as (
    select position,
           name,
           scope,
           scope = any (held.scopes) as is_visible
      from held
     cross join (
               values (1, 'app_sessions', 'read:activity'),
                      (2, 'coding_sessions', 'read:activity'),
                      (3, 'code_events', 'read:code'),
                      (4, 'health_samples', 'read:health'),
                      (5, 'heart_rate', 'read:health'),
                      (6, 'sleep', 'read:health'),
                      (7, 'locations', 'read:location'),
                      (8, 'location_events', 'read:location'),
                      (9, 'listening', 'read:music'),
                      (10, 'calendar_events', 'read:content'),
                      (11, 'recordings', 'read:content'),
                      (12, 'insights', 'read:content'),
                      (13, 'watching', 'read:content')
           ) as known (position, name, scope)
),
-- Each part has a condition that is decided before anything is read for it.
counted as (
    select 'app_sessions' as name,
           count(*) as rows,
           min(started_at) as first_at,
           max(started_at) as last_at
      from activity.app_session
     where user_id = %(user_id)s
       and (select is_visible from visible where name = 'app_sessions')
     union all
    select 'coding_sessions',
           count(*),
           min(started_at),
           max(started_at)
      from activity.coding_session
     where user_id = %(user_id)s
       and (select is_visible from visible where name = 'coding_sessions')
     union all
    select 'code_events',
           count(*),
           min(occurred_at),
           max(occurred_at)
      from code.event
     where user_id = %(user_id)s
       and (select is_visible from visible where name = 'code_events')
     union all
    select 'health_samples',
           count(*),
           min(started_at),
           max(started_at)
      from health.sample
     where user_id = %(user_id)s
       and (select is_visible from visible where name = 'health_samples')
     union all
    select 'heart_rate',
           count(*),
           min(recorded_at),
           max(recorded_at)
      from health.heart_rate
     where user_id = %(user_id)s
       and (select is_visible from visible where name = 'heart_rate')
     union all
    select 'sleep',
           count(*),
           min(ended_at),
           max(ended_at)
      from health.sleep
     where user_id = %(user_id)s
       and (select is_visible from visible where name = 'sleep')
     union all
    select 'locations',
           count(*),
           min(recorded_at),
           max(recorded_at)
      from location.point
     where user_id = %(user_id)s
       and (select is_visible from visible where name = 'locations')
     union all
    select 'location_events',
           count(*),
           min(started_at),
           max(started_at)
      from location.event
     where user_id = %(user_id)s
       and (select is_visible from visible where name = 'location_events')
     union all
    select 'listening',
           count(*),
           min(listened_at),
           max(listened_at)
      from music.listen
     where user_id = %(user_id)s
       and (select is_visible from visible where name = 'listening')
     union all
    select 'calendar_events',
           count(*),
           min(starts_at),
           max(starts_at)
      from content.calendar_event
     where user_id = %(user_id)s
       and (select is_visible from visible where name = 'calendar_events')
     union all
    select 'recordings',
           count(*),
           min(recorded_at),
           max(recorded_at)
      from content.recording
     where user_id = %(user_id)s
       and (select is_visible from visible where name = 'recordings')
     union all
    select 'insights',
           count(*),
           min(week_start) at time zone 'UTC',
           max(week_end) at time zone 'UTC'
      from content.insight
     where user_id = %(user_id)s
       and (select is_visible from visible where name = 'insights')
     union all
    select 'watching',
           count(*),
           min(watched_at),
           max(watched_at)
      from content.play
     where user_id = %(user_id)s
       and (select is_visible from visible where name = 'watching')
),
synced as (
    select stream as name,
           max(last_sync_at) as last_sync_at
      from activity.device_stream
     where user_id = %(user_id)s
     group by stream
),
domain as (
    select visible.position,
           visible.name as domain,
           visible.scope,
           visible.is_visible,
           case when visible.is_visible then counted.rows end as rows,
           (counted.first_at at time zone known_in.tz)::date as first_day,
           (counted.last_at at time zone known_in.tz)::date as last_day,
           svc.instant(synced.last_sync_at) as last_sync_at
      from visible
      join counted using (name)
      left join synced using (name)
     cross join frame
     -- An insight has calendar days, which do not depend on a time zone.
     cross join lateral (
               select case visible.name when 'insights' then 'UTC' else frame.tz end as tz
           ) as known_in
)
select (
           select json_agg(
                      json_build_object(
                          'domain', domain,
                          'scope', scope,
                          'is_visible', is_visible,
                          'rows', rows,
                          'first_day', first_day,
                          'last_day', last_day,
                          'last_sync_at', last_sync_at
                      )
                      order by position
                  )
             from domain
       ) as domains,
       (select removed_before from activity.raw_limit where user_id = %(user_id)s) as removed_before,
       case
           when 'read:profile' = any (held.scopes)
               then (
                        select json_build_object(
                                   'display_name', display_name,
                                   'email', email,
                                   'timezone', timezone,
                                   'week_starts_on', week_starts_on
                               )
                          from identity.user
                         where user_id = %(user_id)s
                    )
       end as profile,
       json_build_object(
           'held', (
               select coalesce(json_agg(scope order by position), '[]')
                 from unnest(%(readable)s::text[]) with ordinality as known (scope, position)
                where scope = any (held.scopes)
           ),
           'missing', (
               select coalesce(json_agg(scope order by position), '[]')
                 from unnest(%(readable)s::text[]) with ordinality as known (scope, position)
                where scope <> all (held.scopes)
           )
       ) as scopes
  from frame
 cross join held
--include end_of_answer
