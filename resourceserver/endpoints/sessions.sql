-- name: app_sessions
-- App sessions that overlap a range, the newest first, idle ones too, each with its own whole duration. Without
-- a filter by category, categories are decided only for the sessions of the page.
--include answer
with
--include categories
rule_inputs as (
--include app_session_columns
      from activity.app_session as session
     where session.user_id = %(user_id)s
       and session.started_at > %(from)s::timestamptz - interval '24 hours'
       and session.started_at < %(to)s::timestamptz
       and (
               session.ended_at > %(from)s::timestamptz
               or session.started_at >= %(from)s::timestamptz
           )
       and %(from)s::timestamptz < %(to)s::timestamptz
       and (session.started_at, session.app_session_id)
           < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
       and (%(app)s::text is null or session.app = %(app)s::text)
     order by session.started_at desc,
              session.app_session_id desc
     limit case when %(category)s::text is null then %(limit)s::bigint + 1 end
),
--include decided_category
list_row as (
    select session.started_at as at,
           session.app_session_id as id,
           row_to_json(line) as line
      from decided_category as session,
           activity.device as device,
           lateral (
--include app_session
           ) as line
     where device.user_id = %(user_id)s
       and device.device_id = session.device_id
       and (%(category)s::text is null or session.known_as = %(category)s::text)
     order by session.started_at desc,
              session.app_session_id desc
     limit %(limit)s::bigint + 1
),
--include page
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       page.*,
--include removed_sessions
  from page
--include end_of_answer

-- name: sessions_by_app
-- Sessions in a range by application, most time first, each with its newest sessions.
--include answer
with slot as (
    select 1 as position,
           %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
--include spans
--include categories
--include rule_inputs_in_spans
--include decided_category
--include app_time
--include per_session
--include apps
listed as (
    select per_app.app,
           newest.sessions
      from per_app,
           slot,
           lateral (
               select json_agg(
                          json_build_object(
                              'id', session.app_session_id,
                              'started_at', svc.instant(session.started_at),
                              'ended_at', svc.instant(session.ended_at),
                              'duration_ms', svc.duration_ms(session.ended_at - session.started_at),
                              'title', session.title
                          )
                          order by session.started_at desc,
                                   session.app_session_id desc
                      ) as sessions
                 from (
                          select app_session_id,
                                 started_at,
                                 ended_at,
                                 title
                            from activity.app_session
                           where user_id = %(user_id)s
                             and app = per_app.app
                             and started_at > slot.starts_at - interval '24 hours'
                             and started_at < slot.ends_at
                             and (ended_at > slot.starts_at or started_at >= slot.starts_at)
                             and not idle
                           order by started_at desc,
                                    app_session_id desc
                           limit 20
                      ) as session
           ) as newest
),
row as (
    select per_app.app,
           per_app.category,
           svc.productivity(coalesce(known.score, 0)) as productivity,
           per_app.total_ms,
           svc.percent(per_app.total_ms, total.tracked_ms) as percent,
           per_app.session_count,
           round(per_app.total_ms::numeric / per_app.session_count)::bigint as average_ms,
           per_app.longest_ms,
           svc.instant(per_app.first_at) as first_started_at,
           svc.instant(per_app.last_at) as last_ended_at,
           listed.sessions
      from per_app
     cross join total
      join listed using (app)
      left join score as known using (category)
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       (
           select coalesce(json_agg(row order by total_ms desc, app collate "C"), '[]')
             from row
       ) as data,
       (select row_to_json(total) from total) as totals,
--include removed_sessions
  from slot
--include end_of_answer

-- name: coding_sessions
-- Coding sessions that overlap a range, the newest first, each with its own whole duration.
--include answer
with list_row as (
    select session.started_at as at,
           session.coding_session_id as id,
           row_to_json(line) as line
      from activity.coding_session as session
      join activity.device as device
        on device.user_id = %(user_id)s
       and device.device_id = session.device_id,
           lateral (
--include coding_session
           ) as line
     where session.user_id = %(user_id)s
       and session.started_at > %(from)s::timestamptz - interval '24 hours'
       and session.started_at < %(to)s::timestamptz
       and (
               session.ended_at > %(from)s::timestamptz
               or session.started_at >= %(from)s::timestamptz
           )
       and %(from)s::timestamptz < %(to)s::timestamptz
       and (session.started_at, session.coding_session_id)
           < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
     order by session.started_at desc,
              session.coding_session_id desc
     limit %(limit)s::bigint + 1
),
--include page
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       page.*,
--include removed_sessions
  from page
--include end_of_answer

-- name: sessions_daily
-- The number and the length of the sessions on every day that overlaps a range; days in order. Those of coding
-- are 0 here, since `sessions_daily_coding` adds them.
--include answer
with
--include touched_days
--include spans
--include rules
--include rule_inputs_in_spans
--include decided_category
--include app_time
--include per_session
per_app as (
    select position,
           app,
           sum(total_ms) as total_ms,
           max(longest_ms) as longest_ms,
           sum(session_count) as session_count,
           min(first_at) as first_at,
           max(last_at) as last_at
      from per_session
     group by position,
              app
),
measured as (
    select position,
           sum(total_ms)::bigint as tracked_ms,
           max(longest_ms)::bigint as longest_session_ms,
           (array_agg(app order by longest_ms desc, app collate "C"))[1] as longest_session_app,
           sum(session_count)::bigint as session_count,
           count(*) as app_count,
           min(first_at) as first_at,
           max(last_at) as last_at
      from per_app
     group by position
),
row as (
    select slot.date,
           coalesce(measured.session_count, 0) as session_count,
           coalesce(measured.app_count, 0) as app_count,
           coalesce(measured.tracked_ms, 0) as tracked_ms,
           round(measured.tracked_ms::numeric / measured.session_count)::bigint as average_session_ms,
           measured.longest_session_ms,
           measured.longest_session_app,
           svc.instant(measured.first_at) as first_started_at,
           svc.instant(measured.last_at) as last_ended_at,
           0 as coding_session_count,
           0 as coding_ms
      from slot
      left join measured using (position)
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       %(given_tz)s::text as tz,
       (select coalesce(json_agg(row order by date), '[]') from row) as data,
       json_build_object(
           'session_count',
           (
               select (
                          coalesce(sum(started), 0)
                          + coalesce(sum(continued) filter (where position = 1), 0)
                      )::bigint
                 from spent
           ),
           'tracked_ms', (select coalesce(sum(tracked_ms), 0)::bigint from row)
       ) as totals,
--include removed_edges
  from requested
--include end_of_answer

-- name: sessions_daily_coding
-- How many coding sessions there were on the same days, and how long they were, for each day with any.
--include answer
with
--include touched_days
--include spans
--include runs
--include coding_time
coded as (
    select position,
           sum(started + continued)::bigint as coding_session_count,
           sum(owned_ms)::bigint as coding_ms
      from coding_spent
     group by position
)
select coalesce(
           json_object_agg(
               slot.date,
               json_build_object(
                   'coding_session_count', coded.coding_session_count,
                   'coding_ms', coded.coding_ms
               )
           ),
           '{}'
       ) as days
  from slot
  join coded using (position)
--include end_of_answer
