-- How many rows an export of a person has, for the page that offers it. May run again at any time.

-- For each kind of rows of which a life may have many, about how many the signed-in person has, and the scope that an
-- export of them needs (resourceserver/export/resources.py). No row: the session is not valid.
-- Up to 1,000 the number is exact. Above that it is computed from the thousand smallest ids, so the time does not depend
-- on the number of rows: ids are random, and how much of their range these thousand take says how many there are, with a
-- standard deviation of a thirtieth. The first 32 bits of an id decide; its version stands behind them. Days have no
-- such ids, and no life has so many of them that counting takes long.
create or replace function svc.export_rows(p_user_id uuid, p_session_hash bytea)
returns table (
    resource  text,
    scope     text,
    row_count bigint
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
begin atomic
    select kind.resource,
           kind.scope,
           case
               when kind.last_id is null or kind.ids < 1000 then kind.ids
               else (999 * 4294967296.0 / (1 + ('x' || left(kind.last_id::text, 8))::bit(32)::bigint))::bigint
           end
      from (
               select 'app_sessions' as resource,
                      'read:activity' as scope,
                      count(*) as ids,
                      (array_agg(id order by id desc))[1] as last_id
                 from (
                          select app_session_id as id
                            from activity.app_session
                           where user_id = p_user_id
                           order by app_session_id
                           limit 1000
                      ) as smallest
               union all
               select 'coding_sessions',
                      'read:activity',
                      count(*),
                      (array_agg(id order by id desc))[1]
                 from (
                          select coding_session_id as id
                            from activity.coding_session
                           where user_id = p_user_id
                           order by coding_session_id
                           limit 1000
                      ) as smallest
               union all
               select 'screen_times',
                      'read:activity',
                      count(*),
                      (array_agg(id order by id desc))[1]
                 from (
                          select screen_time_id as id
                            from activity.screen_time
                           where user_id = p_user_id
                           order by screen_time_id
                           limit 1000
                      ) as smallest
               union all
               select 'code_events',
                      'read:code',
                      count(*),
                      (array_agg(id order by id desc))[1]
                 from (
                          select event_id as id
                            from code.event
                           where user_id = p_user_id
                           order by event_id
                           limit 1000
                      ) as smallest
               union all
               select 'health_samples',
                      'read:health',
                      count(*),
                      (array_agg(id order by id desc))[1]
                 from (
                          select sample_id as id
                            from health.sample
                           where user_id = p_user_id
                           order by sample_id
                           limit 1000
                      ) as smallest
               union all
               select 'heart_rates',
                      'read:health',
                      count(*),
                      (array_agg(id order by id desc))[1]
                 from (
                          select heart_rate_id as id
                            from health.heart_rate
                           where user_id = p_user_id
                           order by heart_rate_id
                           limit 1000
                      ) as smallest
               union all
               select 'sleeps',
                      'read:health',
                      count(*),
                      (array_agg(id order by id desc))[1]
                 from (
                          select sleep_id as id
                            from health.sleep
                           where user_id = p_user_id
                           order by sleep_id
                           limit 1000
                      ) as smallest
               union all
               select 'listens',
                      'read:music',
                      count(*),
                      (array_agg(id order by id desc))[1]
                 from (
                          select listen_id as id
                            from music.listen
                           where user_id = p_user_id
                           order by listen_id
                           limit 1000
                      ) as smallest
               union all
               select 'locations',
                      'read:location',
                      count(*),
                      (array_agg(id order by id desc))[1]
                 from (
                          select point_id as id
                            from location.point
                           where user_id = p_user_id
                           order by point_id
                           limit 1000
                      ) as smallest
               union all
               select 'location_events',
                      'read:location',
                      count(*),
                      (array_agg(id order by id desc))[1]
                 from (
                          select event_id as id
                            from location.event
                           where user_id = p_user_id
                           order by event_id
                           limit 1000
                      ) as smallest
               union all
               select 'insights',
                      'read:content',
                      count(*),
                      (array_agg(id order by id desc))[1]
                 from (
                          select insight_id as id
                            from content.insight
                           where user_id = p_user_id
                           order by insight_id
                           limit 1000
                      ) as smallest
               union all
               select 'recordings',
                      'read:content',
                      count(*),
                      (array_agg(id order by id desc))[1]
                 from (
                          select recording_id as id
                            from content.recording
                           where user_id = p_user_id
                           order by recording_id
                           limit 1000
                      ) as smallest
               union all
               select 'plays',
                      'read:content',
                      count(*),
                      (array_agg(id order by id desc))[1]
                 from (
                          select play_id as id
                            from content.play
                           where user_id = p_user_id
                           order by play_id
                           limit 1000
                      ) as smallest
               union all
               select 'calendar_events',
                      'read:content',
                      count(*),
                      (array_agg(id order by id desc))[1]
                 from (
                          select calendar_event_id as id
                            from content.calendar_event
                           where user_id = p_user_id
                           order by calendar_event_id
                           limit 1000
                      ) as smallest
               union all
               select 'daily_summaries',
                      'read:activity',
                      count(*),
                      -- With a name: without one the function reads differently after a restore.
                      null::uuid as last_id
                 from activity.daily_summary
                where user_id = p_user_id
           ) as kind
     where svc.is_signed_in(p_user_id, p_session_hash);
end;
