-- fragment: days
-- `slot`: every calendar day, in order.
-- gives: slot (date, ends_at, position, starts_at)
slot as (
    select n as position,
           date,
           starts_at,
           ends_at
      from svc.days(%(from)s::date, %(to)s::date, %(tz)s)
),

-- name: daily
-- Tracked, productive, neutral and distracted time for every calendar day, in order. Coding time and switches are 0
-- here, since `daily_coding` and `daily_switches` add them.
--include answer
with
--include days
--include spans
--include categories
--include rule_inputs_in_spans
--include decided_category
--include app_time
--include per_category
measured as (
    select position,
           sum(total_ms)::bigint as tracked_ms,
           sum(total_ms) filter (where score >= 1)::bigint as productive_ms,
           sum(total_ms) filter (where score <= -1)::bigint as distracted_ms,
           sum(session_count)::bigint as session_count,
           min(first_at) as first_at,
           max(last_at) as last_at
      from per_category
     group by position
),
row as (
    select slot.date,
           svc.instant(slot.starts_at) as starts_at,
           svc.instant(slot.ends_at) as ends_at,
           coalesce(tracked_ms, 0) as tracked_ms,
           coalesce(productive_ms, 0) as productive_ms,
           coalesce(tracked_ms - coalesce(productive_ms, 0) - coalesce(distracted_ms, 0), 0) as neutral_ms,
           coalesce(distracted_ms, 0) as distracted_ms,
           0 as coding_ms,
           0 as app_switches,
           coalesce(session_count, 0) as session_count,
           svc.instant(first_at) as first_activity_at,
           svc.instant(last_at) as last_activity_at,
           coalesce(tracked_ms, 0) > 0 as has_data
      from slot
      left join measured using (position)
)
select json_build_object('from', %(from)s::date, 'to', %(to)s::date) as range,
       %(tz)s::text as tz,
       (select json_agg(row order by date) from row) as data
--include end_of_answer

-- name: daily_coding
-- Coding time of the same days, for each day with any.
--include answer
with
--include days
--include spans
--include coding_time
coded as (
    select position,
           sum(owned_ms)::bigint as coding_ms
      from coding_spent
     group by position
)
select coalesce(json_object_agg(slot.date, coded.coding_ms), '{}') as days
  from slot
  join coded using (position)
--include end_of_answer

-- name: daily_switches
-- The number of switches on the same days, for each day with any.
--include answer
with
--include days
--include switched
counted as (
    select slot.date,
           switched.app_switches
      from slot
      join switched using (position)
)
select coalesce(json_object_agg(date, app_switches), '{}') as days
  from counted
--include end_of_answer

-- name: app_usage
-- Time spent per application in a range, longest first.
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
row as (
    select per_app.app,
           per_app.category,
           svc.productivity(coalesce(known.score, 0)) as productivity,
           per_app.total_ms,
           svc.percent(per_app.total_ms, total.tracked_ms) as percent,
           per_app.session_count,
           per_app.longest_ms as longest_session_ms,
           svc.instant(per_app.first_at) as first_used_at,
           svc.instant(per_app.last_at) as last_used_at
      from per_app
     cross join total
      left join score as known using (category)
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       (
           select coalesce(json_agg(row order by total_ms desc, app collate "C"), '[]')
             from row
       ) as data,
       (select row_to_json(total) from total) as totals
  from slot
--include end_of_answer

-- name: categories
-- Time spent per category in a range, longest first, and how productive it counts.
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
per_app as (
    select category,
           app,
           sum(owned_ms) as total_ms,
           sum(started + continued) as session_count
      from spent
     group by category,
              app
),
per_category as (
    select per_app.category,
           coalesce(known.score, 0) as score,
           sum(per_app.total_ms)::bigint as total_ms,
           count(*) as app_count,
           sum(per_app.session_count)::bigint as session_count
      from per_app
      left join score as known using (category)
     group by per_app.category,
              known.score
),
total as (
    select coalesce(sum(total_ms), 0)::bigint as tracked_ms,
           coalesce(sum(total_ms) filter (where score >= 1), 0)::bigint as productive_ms,
           coalesce(sum(total_ms) filter (where score = 0), 0)::bigint as neutral_ms,
           coalesce(sum(total_ms) filter (where score <= -1), 0)::bigint as distracted_ms,
           coalesce(sum(total_ms) filter (where category = 'Uncategorized'), 0)::bigint as uncategorized_ms
      from per_category
),
row as (
    select category,
           svc.productivity(score) as productivity,
           score,
           total_ms,
           svc.percent(total_ms, total.tracked_ms) as percent,
           app_count,
           session_count
      from per_category
     cross join total
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       (
           select coalesce(json_agg(row order by total_ms desc, category collate "C"), '[]')
             from row
       ) as data,
       (select row_to_json(total) from total) as totals
  from slot
--include end_of_answer

-- name: daily_categories
-- Time spent per category on every day that a range touches, days in order, categories longest first.
--include answer
with
--include touched_days
--include spans
--include categories
--include rule_inputs_in_spans
--include decided_category
--include app_time
--include per_category
part as (
    select position,
           sum(total_ms) over day as tracked_ms,
           category,
           svc.productivity(score) as productivity,
           total_ms,
           svc.percent(total_ms, (sum(total_ms) over day)::bigint) as percent
      from per_category
    window day as (partition by position)
),
measured as (
    select position,
           max(tracked_ms)::bigint as tracked_ms,
           json_agg(
               json_build_object(
                   'category', category,
                   'productivity', productivity,
                   'total_ms', total_ms,
                   'percent', percent
               )
               order by total_ms desc,
                        category collate "C"
           ) as categories
      from part
     group by position
),
row as (
    select slot.date,
           coalesce(measured.tracked_ms, 0) as tracked_ms,
           coalesce(measured.categories, '[]') as categories
      from slot
      left join measured using (position)
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       %(tz)s::text as tz,
       (select coalesce(json_agg(row order by date), '[]') from row) as data,
       (
           select json_build_object('tracked_ms', coalesce(sum(tracked_ms), 0)::bigint)
             from row
       ) as totals
  from requested
--include end_of_answer
