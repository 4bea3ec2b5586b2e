-- name: summaries
-- Stored summaries, the newest first, and the pending days from the first to the last of the page.
--include answer
with pending as materialized (
    select date
      from svc.pending_days(%(user_id)s, %(from)s, %(to)s) as date
),
list_row as (
    select summary.date::timestamp at time zone 'UTC' as at,
           '00000000-0000-0000-0000-000000000000'::uuid as id,
           row_to_json(line) as line
      from activity.daily_summary as summary
      left join pending
        on pending.date = summary.date
     cross join lateral (
--include summary
           ) as line
     where summary.user_id = %(user_id)s
       and summary.date between %(from)s::date and %(to)s::date
       -- A summary has no id and needs none: its date alone says where the next page begins.
       and (
               summary.date::timestamp at time zone 'UTC',
               '00000000-0000-0000-0000-000000000000'::uuid
           ) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
     order by summary.date desc
     limit %(limit)s::bigint + 1
),
--include page
select page.*,
       (
           select coalesce(json_agg(pending.date order by pending.date desc), '[]')
             from pending
            where pending.date::timestamp at time zone 'UTC' < %(cursor_at)s::timestamptz
              and (
                      not page.has_more
                      or pending.date::timestamp at time zone 'UTC' >= (
                          select min(page_row.at)
                            from (
                                     select list_row.at
                                       from list_row
                                      order by list_row.at desc
                                      limit %(limit)s::bigint
                                 ) as page_row
                      )
                  )
       ) as pending_days
  from page
--include end_of_answer
