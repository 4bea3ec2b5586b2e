-- fragment: counted_rows
-- `counted`: the number of rows of each visible domain, but no more than one above :most_rows.
-- needs: visible (is_visible, name)
-- gives: counted (name, rows)
counted as (
    select 'app_sessions' as name,
           count(*) as rows
      from (
               select
                 from activity.app_session
                where user_id = %(user_id)s
                  and (select is_visible from visible where name = 'app_sessions')
                limit %(most_rows)s::bigint + 1
           ) as each
     union all
    select 'coding_sessions',
           count(*)
      from (
               select
                 from activity.coding_session
                where user_id = %(user_id)s
                  and (select is_visible from visible where name = 'coding_sessions')
                limit %(most_rows)s::bigint + 1
           ) as each
     union all
    select 'code_events',
           count(*)
      from (
               select
                 from code.event
                where user_id = %(user_id)s
                  and (select is_visible from visible where name = 'code_events')
                limit %(most_rows)s::bigint + 1
           ) as each
     union all
    select 'health_samples',
           count(*)
      from (
               select
                 from health.sample
                where user_id = %(user_id)s
                  and (select is_visible from visible where name = 'health_samples')
                limit %(most_rows)s::bigint + 1
           ) as each
     union all
    select 'heart_rate',
           count(*)
      from (
               select
                 from health.heart_rate
                where user_id = %(user_id)s
                  and (select is_visible from visible where name = 'heart_rate')
                limit %(most_rows)s::bigint + 1
           ) as each
     union all
    select 'sleep',
           count(*)
      from (
               select
                 from health.sleep
                where user_id = %(user_id)s
                  and (select is_visible from visible where name = 'sleep')
                limit %(most_rows)s::bigint + 1
           ) as each
     union all
    select 'locations',
           count(*)
      from (
               select
                 from location.point
                where user_id = %(user_id)s
                  and (select is_visible from visible where name = 'locations')
                limit %(most_rows)s::bigint + 1
           ) as each
     union all
    select 'location_events',
           count(*)
      from (
               select
                 from location.event
                where user_id = %(user_id)s
                  and (select is_visible from visible where name = 'location_events')
                limit %(most_rows)s::bigint + 1
           ) as each
     union all
    select 'listening',
           count(*)
      from (
               select
                 from music.listen
                where user_id = %(user_id)s
                  and (select is_visible from visible where name = 'listening')
                limit %(most_rows)s::bigint + 1
           ) as each
     union all
    select 'calendar_events',
           count(*)
      from (
               select
                 from content.calendar_event
                where user_id = %(user_id)s
                  and (select is_visible from visible where name = 'calendar_events')
                limit %(most_rows)s::bigint + 1
           ) as each
     union all
    select 'recordings',
           count(*)
      from (
               select
                 from content.recording
                where user_id = %(user_id)s
                  and (select is_visible from visible where name = 'recordings')
                limit %(most_rows)s::bigint + 1
           ) as each
     union all
    select 'insights',
           count(*)
      from (
               select
                 from content.insight
                where user_id = %(user_id)s
                  and (select is_visible from visible where name = 'insights')
                limit %(most_rows)s::bigint + 1
           ) as each
     union all
    select 'watching',
           count(*)
      from (
               select
                 from content.play
                where user_id = %(user_id)s
                  and (select is_visible from visible where name = 'watching')
                limit %(most_rows)s::bigint + 1
           ) as each
),

-- fragment: first_and_last_rows
-- `extent`: when the first and the last row of each visible domain are. Each is found by an index, which a condition
-- within its subquery would prevent; but no index has the ends of the weeks of insights, of which a person has few.
-- needs: visible (is_visible, name)
-- gives: extent (first_at, last_at, name)
extent as (
    select 'app_sessions' as name,
           (
               select min(started_at)
                 from activity.app_session
                where user_id = %(user_id)s
           ) as first_at,
           (
               select max(started_at)
                 from activity.app_session
                where user_id = %(user_id)s
           ) as last_at
     where (select is_visible from visible where name = 'app_sessions')
     union all
    select 'coding_sessions',
           (
               select min(started_at)
                 from activity.coding_session
                where user_id = %(user_id)s
           ),
           (
               select max(started_at)
                 from activity.coding_session
                where user_id = %(user_id)s
           )
     where (select is_visible from visible where name = 'coding_sessions')
     union all
    select 'code_events',
           (
               select min(occurred_at)
                 from code.event
                where user_id = %(user_id)s
           ),
           (
               select max(occurred_at)
                 from code.event
                where user_id = %(user_id)s
           )
     where (select is_visible from visible where name = 'code_events')
     union all
    select 'health_samples',
           (
               select min(sample.started_at)
                 from health.metric,
                      lateral (
                          select started_at
                            from health.sample
                           where user_id = %(user_id)s
                             and metric_type = metric.metric_type
                           order by started_at
                           limit 1
                      ) as sample
                where metric.user_id = %(user_id)s
           ),
           (
               select max(sample.started_at)
                 from health.metric,
                      lateral (
                          select started_at
                            from health.sample
                           where user_id = %(user_id)s
                             and metric_type = metric.metric_type
                           order by started_at desc
                           limit 1
                      ) as sample
                where metric.user_id = %(user_id)s
           )
     where (select is_visible from visible where name = 'health_samples')
     union all
    select 'heart_rate',
           (
               select min(recorded_at)
                 from health.heart_rate
                where user_id = %(user_id)s
           ),
           (
               select max(recorded_at)
                 from health.heart_rate
                where user_id = %(user_id)s
           )
     where (select is_visible from visible where name = 'heart_rate')
     union all
    select 'sleep',
           (
               select min(ended_at)
                 from health.sleep
                where user_id = %(user_id)s
           ),
           (
               select max(ended_at)
                 from health.sleep
                where user_id = %(user_id)s
           )
     where (select is_visible from visible where name = 'sleep')
     union all
    select 'locations',
           (
               select min(recorded_at)
                 from location.point
                where user_id = %(user_id)s
           ),
           (
               select max(recorded_at)
                 from location.point
                where user_id = %(user_id)s
           )
     where (select is_visible from visible where name = 'locations')
     union all
    select 'location_events',
           (
               select min(started_at)
                 from location.event
                where user_id = %(user_id)s
           ),
           (
               select max(started_at)
                 from location.event
                where user_id = %(user_id)s
           )
     where (select is_visible from visible where name = 'location_events')
     union all
    select 'listening',
           (
               select min(listened_at)
                 from music.listen
                where user_id = %(user_id)s
           ),
           (
               select max(listened_at)
                 from music.listen
                where user_id = %(user_id)s
           )
     where (select is_visible from visible where name = 'listening')
     union all
    select 'calendar_events',
           (
               select min(starts_at)
                 from content.calendar_event
                where user_id = %(user_id)s
           ),
           (
               select max(starts_at)
                 from content.calendar_event
                where user_id = %(user_id)s
           )
     where (select is_visible from visible where name = 'calendar_events')
     union all
    select 'recordings',
           (
               select min(recorded_at)
                 from content.recording
                where user_id = %(user_id)s
           ),
           (
               select max(recorded_at)
                 from content.recording
                where user_id = %(user_id)s
           )
     where (select is_visible from visible where name = 'recordings')
     union all
    select 'insights',
           (
               select min(week_start) at time zone 'UTC'
                 from content.insight
                where user_id = %(user_id)s
           ),
           (
               select max(week_end) at time zone 'UTC'
                 from content.insight
                where user_id = %(user_id)s
           )
     where (select is_visible from visible where name = 'insights')
     union all
    select 'watching',
           (
               select min(watched_at)
                 from content.play
                where user_id = %(user_id)s
           ),
           (
               select max(watched_at)
                 from content.play
                where user_id = %(user_id)s
           )
     where (select is_visible from visible where name = 'watching')
),

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
      from held,
           (
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
-- Each part has a condition that is decided before anything is read for it, and reads little of a long history.
--include counted_rows
--include first_and_last_rows
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
           case when visible.is_visible then least(counted.rows, %(most_rows)s::bigint) end as rows,
           case when visible.is_visible then counted.rows > %(most_rows)s::bigint end as has_more_rows,
           (extent.first_at at time zone known_in.tz)::date as first_day,
           (extent.last_at at time zone known_in.tz)::date as last_day,
           svc.instant(synced.last_sync_at) as last_sync_at
      from visible
      join counted using (name)
      left join extent using (name)
      left join synced using (name),
           frame,
           -- An insight has calendar days, which do not depend on a time zone.
           lateral (
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
                          'has_more_rows', has_more_rows,
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
