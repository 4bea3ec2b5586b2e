-- name: correlate_frame
-- The days of the period that are over; the last of them if there are too many.
--include answer
with frame as (
    with
--include today
--include period
    requested as (
        select tz,
               today,
               week_starts_on,
               first_day as requested_first_day,
               least(last_day, greatest(first_day, today - 1)) as last_day
          from frame
    ),
    cut as (
        select requested.*,
               greatest(requested_first_day, last_day - %(most_days)s::integer + 1) as first_day
          from requested
    ),
    -- Metrics of health that are not listed by name come after all others.
    wanted as (
        select known.metric as name,
               min(known.n) as n
          from (
                   select metric,
                          n
                     from unnest(%(metrics)s::text[], %(metric_scopes)s::text[]) with ordinality
                              as listed (metric, scope, n)
                    where (select listed.scope = any (scopes) from may)
                    union all
                   select 'health:' || metric_type,
                          1000
                     from health.metric
                    where user_id = %(user_id)s
                      and %(is_search)s::boolean
                      and 'health:' || metric_type <> all (%(family)s::text[])
                      and (select 'read:health' = any (scopes) from may)
               ) as known
         group by known.metric
    ),
    slot as (
        select day.n as position,
               day.date,
               day.starts_at,
               day.ends_at
          from cut
         cross join lateral svc.days(
                   cut.first_day + least(%(lag)s::integer, 0),
                   greatest(
                       least(cut.last_day + greatest(%(lag)s::integer, 0), cut.today - 1),
                       cut.last_day
                   ),
                   cut.tz
               ) as day
    ),
--include reported_days
    measurable as (
        select wanted.name,
               wanted.n,
               known.unit
          from wanted
          left join health.metric as known
            on known.user_id = %(user_id)s
           and 'health:' || known.metric_type = wanted.name
    ),
    framed as (
        select tz,
               today,
               week_starts_on,
               first_day,
               last_day,
               requested_first_day < first_day as is_cut,
               (
                   select coalesce(
                              json_agg(
                                  json_build_object('name', name, 'unit', unit)
                                  order by n, name collate "C"
                              ),
                              '[]'
                          )
                     from measurable
               ) as metrics,
               (select coalesce(json_agg(date), '[]') from reported) as reported,
--include rendered_slots
          from cut
    )
    select framed.*,
           svc.day_start(first_day, tz) as starts_at,
           svc.day_start(last_day + 1, tz) as ends_at,
--include frame_scopes
      from framed
),
--include framed
--include end_of_answer

-- name: correlate
-- The metrics to compare, and the scopes that are missing. Python compares the values of days (correlate.py).
--include answer
with
--include frame
requested as (
    select *
      from frame
)
select %(method)s::text as method,
       %(adjust)s::text as adjust,
       %(lag)s::integer as lag_days,
       last_day - first_day + 1 as days,
       %(pair)s::text[] as pair,
       %(is_search)s::boolean as is_search,
       %(family)s::text[] as family,
       (
           select coalesce(json_agg(distinct scope order by scope), '[]')
             from unnest(%(metric_scopes)s::text[]) as needed (scope)
            where scope <> all (%(frame_scopes)s::text[])
       ) as missing_scopes,
       %(frame_is_cut)s::boolean as truncated
  from requested
--include end_of_answer
