-- name: correlate_frame
-- The days of the period that are over: the last of them, where there are too many.
--include answer
with
--include today
--include period
asked as (
    select tz,
           today,
           week_starts_on,
           first_day as asked_day,
           least(last_day, greatest(first_day, today - 1)) as last_day
      from frame
),
cut as (
    select asked.*,
           greatest(asked_day, last_day - %(most_days)s::integer + 1) as first_day
      from asked
)
select tz,
       today,
       week_starts_on,
       first_day,
       last_day,
       asked_day < first_day as is_cut,
       svc.day_start(first_day, tz) as starts_at,
       svc.day_start(last_day + 1, tz) as ends_at,
--include frame_scopes
  from cut
--include end_of_answer

-- name: correlate
-- The value of each metric that is to be compared on each day of a period, and on those that lie later or
-- earlier by the lag: null where it is not known. Today is not over, so it is left out, and so is what the
-- token may not see. Python compares them (correlate.py).
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
     cross join lateral svc.days(
               frame.first_day + least(%(lag)s::integer, 0),
               greatest(
                   least(frame.last_day + greatest(%(lag)s::integer, 0), frame.today - 1),
                   frame.last_day
               ),
               frame.tz
           ) as day
),
-- Those of health that nobody knows but the person's own trackers come after all others.
wanted as materialized (
    select known.metric,
           min(known.n) as n
      from held
     cross join lateral (
               select metric,
                      n
                 from unnest(%(metrics)s::text[], %(scopes)s::text[]) with ordinality
                          as listed (metric, scope, n)
                where scope = any (held.scopes)
                union all
               select 'health:' || metric_type,
                      1000
                 from health.metric
                where user_id = %(user_id)s
                  and %(is_search)s::boolean
                  and 'read:health' = any (held.scopes)
           ) as known
     group by known.metric
),
--include added_up_metrics
--include metrics_of_days
told as (
    select wanted.metric as name,
           wanted.n,
           known.unit,
           json_agg(valued.value order by valued.date) as values
      from wanted
      join valued using (metric)
      left join health.metric as known
        on known.user_id = %(user_id)s
       and 'health:' || known.metric_type = wanted.metric
     group by wanted.metric,
              wanted.n,
              known.unit
)
select %(method)s::text as method,
       %(lag)s::integer as lag_days,
       frame.last_day - frame.first_day + 1 as days,
       %(pair)s::text[] as pair,
       %(is_search)s::boolean as is_search,
       (
           select coalesce(
                      json_agg(
                          json_build_object('name', name, 'unit', unit, 'values', values)
                          order by n, name collate "C"
                      ),
                      '[]'
                  )
             from told
       ) as metrics,
       (
           select coalesce(json_agg(distinct needed.scope order by needed.scope), '[]')
             from held
            cross join unnest(%(scopes)s::text[]) as needed (scope)
            where needed.scope <> all (held.scopes)
       ) as missing_scopes,
       %(frame_is_cut)s::boolean as truncated
  from frame
--include end_of_answer
