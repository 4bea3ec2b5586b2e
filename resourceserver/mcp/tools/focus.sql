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
--include overlapping_streaks
--include page_of_streaks
--include streak_breakers
page as (
    select coalesce(json_agg(line order by n) filter (where n <= %(limit)s::bigint), '[]') as data,
           count(*) > %(limit)s::bigint as has_more
      from (select row_number() over (order by at desc) as n, line from list_row) as numbered
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
       page.has_more,
       page.has_more as truncated
  from page
--include end_of_answer
