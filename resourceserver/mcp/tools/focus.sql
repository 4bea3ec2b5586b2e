-- name: get_focus
-- Streaks of focus of a period, as the endpoint has them, and the reasons for their ends, the most frequent first.
-- A streak that lasts until the end of the data was not broken.
--include answer
with recursive
--include frame
requested as (
    select starts_at,
           ends_at
      from frame
),
--include page_of_streaks
broken as (
    select overlapping.reason,
           (select apps from names)[(select apps from label_map)[breaker.place]] as app,
           (select categories from names)[(select categories from label_map)[breaker.place]] as category,
           overlapping.ended_ms - overlapping.started_ms as lasted_ms
      from overlapping
     cross join lateral (
               select case
                          when overlapping.reason in ('distraction', 'neutral')
                              then (select places from segments)[overlapping.breaker_position]
                      end as place
           ) as breaker
     where overlapping.reason in ('distraction', 'neutral', 'idle')
),
breaker as (
    select reason,
           app,
           category,
           count(*) as count,
           svc.percent(count(*), (select count(*) from broken)) as percent,
           round(avg(lasted_ms))::bigint as average_before_ms
      from broken
     group by reason,
              app,
              category
),
longest as (
    select svc.instant(timestamptz 'epoch' + started_ms * interval '1 millisecond') as started_at,
           svc.instant(timestamptz 'epoch' + ended_ms * interval '1 millisecond') as ended_at,
           ended_ms - started_ms as duration_ms
      from overlapping
     order by ended_ms - started_ms desc,
              started_ms
     limit 1
),
page as (
    select coalesce(json_agg(line order by n) filter (where n <= %(limit)s::bigint), '[]') as data,
           count(*) > %(limit)s::bigint as has_more
      from (
               select row_number() over (order by at desc) as n,
                      line
                 from list_row
           ) as numbered
)
select (select row_to_json(total) from total) as totals,
       (select row_to_json(longest) from longest) as longest,
       (
           select coalesce(
                      json_agg(
                          breaker
                          order by count desc,
                                   average_before_ms desc,
                                   reason,
                                   app collate "C",
                                   category collate "C"
                      ),
                      '[]'
                  )
             from breaker
       ) as breakers,
       page.data,
       %(include_switches)s::boolean as include_switches,
       page.has_more as truncated
  from page
--include end_of_answer
