-- name: get_day
-- A day beside the four weeks before it: what it came to in each metric that the token may see, what it was
-- spent on, streaks of focus and goals, and what other domains have of it. Whatever belongs to a scope that is
-- not held is neither read nor told.
with
--include today
frame as (
    select today.tz,
           today.date as today,
           asked.date as first_day,
           asked.date as last_day,
           svc.day_start(asked.date, today.tz) as starts_at,
           svc.day_start(asked.date + 1, today.tz) as ends_at
      from today
     cross join lateral (select coalesce(%(date)s::date, today.date) as date) as asked
),
--include gap
held as (
    select string_to_array(current_setting('svc.scopes'), ' ') as scopes
),
slot as (
    select day.n as position,
           day.date,
           day.starts_at,
           day.ends_at
      from frame
     cross join lateral svc.days(frame.first_day - 28, frame.first_day, frame.tz) as day
),
wanted as (
    select known.metric,
           known.n
      from unnest(%(metrics)s::text[], %(metric_scopes)s::text[]) with ordinality
               as known (metric, scope, n)
     cross join held
     where known.scope = any (held.scopes)
),
-- Of measures of a body, those that the day's recovery has are enough.
metric as (
    select null::text as metric_type
     where false
),
--include metrics_of_days
--include ranked_by_day
compared as (
    select metric,
           max(value) filter (where is_the_day) as value,
           avg(value) filter (where not is_the_day) as normal,
           stddev_samp(value) filter (where not is_the_day) as deviation,
           count(value) filter (where not is_the_day) as days
      from (
               select valued.metric,
                      valued.value::numeric as value,
                      valued.date = frame.first_day as is_the_day
                 from valued
                cross join frame
           ) as told
     group by metric
),
top as (
    select ranked.kind,
           json_agg(
               json_build_object(
                   'name', ranked.name,
                   'total_ms', ranked.total_ms,
                   'percent', svc.percent(ranked.total_ms::bigint, ranked.whole_ms::bigint)
               )
               order by ranked.rank
           ) filter (where ranked.rank <= 5) as rows
      from (
               select *,
                      sum(total_ms) over (partition by kind) as whole_ms
                 from ranked
                where position = (select max(position) from slot)
           ) as ranked
     group by ranked.kind
),
activity as (
    select min(first_at) as first_at,
           max(last_at) as last_at
      from spent
     where position = (select max(position) from slot)
),
focus as (
--query focus_streaks
),
goal as (
--query goals
),
commits as (
--query codehost_activity
),
sleep as (
--query recovery
),
meetings as (
--query calendar_events
),
music as (
--query music_daily
)
select
--include framed
       frame.first_day as date,
       frame.ends_at <= now() as is_over,
       svc.instant(activity.first_at) as first_activity_at,
       svc.instant(activity.last_at) as last_activity_at,
       (
           select json_agg(
                      json_build_object(
                          'metric', compared.metric,
                          'value', compared.value,
                          'normal', compared.normal,
                          'deviation', compared.deviation,
                          'days', compared.days
                      )
                      order by wanted.n
                  )
             from compared
             join wanted using (metric)
       ) as compared,
       coalesce((select rows from top where kind = 'app'), '[]') as top_apps,
       coalesce((select rows from top where kind = 'category'), '[]') as top_categories,
       coalesce((select rows from top where kind = 'project'), '[]') as top_projects,
       focus.totals as focus,
       focus.data as streaks,
       goal.data as goals,
       case
           when 'read:code' = any (held.scopes)
               then (select json_build_object('rows', data, 'has_more', has_more) from commits)
       end as commits,
       case
           when 'read:health' = any (held.scopes)
               then (select json_build_object('rows', data) from sleep)
       end as sleep,
       case
           when 'read:content' = any (held.scopes)
               then (select json_build_object('rows', data, 'has_more', has_more) from meetings)
       end as meetings,
       case
           when 'read:music' = any (held.scopes)
               then (select json_build_object('rows', data) from music)
       end as music,
       focus.has_more as truncated
  from frame
 cross join held
 cross join activity
 cross join focus
 cross join goal
