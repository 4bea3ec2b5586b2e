-- name: day_frame
-- The day that is asked for, else today; and the 28 days before it.
--include answer
with
--include today
frame as (
    select tz,
           date as today,
           week_starts_on,
           coalesce(%(date)s::date, date) as first_day,
           coalesce(%(date)s::date, date) as last_day
      from today
)
select frame.*,
       svc.day_start(first_day, tz) as starts_at,
       svc.day_start(last_day + 1, tz) as ends_at,
--include frame_scopes
  from frame
--include end_of_answer

-- name: get_day
-- A day beside the four weeks before it: what it came to in each metric that the token may see, and what it was
-- spent on. A metric whose scope is not held is not read.
--include answer
with
--include frame
held as (
    select %(frame_scopes)s::text[] as scopes
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
)
select frame.first_day as date,
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
       coalesce((select rows from top where kind = 'project'), '[]') as top_projects
  from frame
 cross join activity
--include end_of_answer
