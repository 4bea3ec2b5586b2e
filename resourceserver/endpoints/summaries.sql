-- name: summaries
-- The days that were summed up, the newest first. Each is as it was stored.
--include answer
with list_row as (
    select summary.date::timestamp at time zone 'UTC' as at,
           '00000000-0000-0000-0000-000000000000'::uuid as id,
           row_to_json(line) as line
      from activity.daily_summary as summary
     cross join lateral (
--include summary
           ) as line
     where summary.user_id = %(user_id)s
       and summary.date between %(from)s::date and %(to)s::date
       -- A day has no id and needs none: its date alone says where the next page begins.
       and (
               summary.date::timestamp at time zone 'UTC',
               '00000000-0000-0000-0000-000000000000'::uuid
           ) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
     order by summary.date desc
     limit %(limit)s::bigint + 1
),
--include page
select page.*
  from page
--include end_of_answer
