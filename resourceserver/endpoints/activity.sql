-- fragment: calendar_days
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
-- here, since `sessions_daily_coding` and `daily_switches` add them.
--include answer
with
--include calendar_days
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
       %(given_tz)s::text as tz,
       (select json_agg(row order by date) from row) as data
--include end_of_answer

-- name: daily_switches
-- The number of switches on the same days, for each day with any.
--include answer
with
--include calendar_days
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
-- Time spent per application, and per website, in a range, longest first. One more row has the sums of all
-- applications after the first 5,000, with the category that has most of their time.
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
placed as (
    select per_app.*,
           row_number() over (order by total_ms desc, app collate "C") as place
      from per_app
),
listed as (
    select place,
           app,
           category,
           total_ms,
           longest_ms,
           session_count,
           first_at,
           last_at
      from placed
     where place <= 5000
     union all
    select 5001,
           null,
           (
               select category
                 from placed
                where place > 5000
                group by category
                order by sum(total_ms) desc,
                         category collate "C"
                limit 1
           ),
           sum(total_ms)::bigint,
           max(longest_ms),
           sum(session_count)::bigint,
           min(first_at),
           max(last_at)
      from placed
     where place > 5000
    having count(*) > 0
),
row as (
    select listed.place,
           json_build_object(
               'app', listed.app,
               'category', listed.category,
               'productivity', svc.productivity(coalesce(known.score, 0)),
               'total_ms', listed.total_ms,
               'percent', svc.percent(listed.total_ms, total.tracked_ms),
               'session_count', listed.session_count,
               'longest_session_ms', listed.longest_ms,
               'first_used_at', svc.instant(listed.first_at),
               'last_used_at', svc.instant(listed.last_at)
           ) as line
      from listed
     cross join total
      left join score as known using (category)
),
per_domain_and_category as (
    select domain,
           category,
           sum(owned_ms) as total_ms,
           sum(started + continued) as session_count
      from spent
     where domain is not null
     group by domain,
              category
),
per_domain as (
    select domain,
           (array_agg(category order by total_ms desc, category collate "C"))[1] as category,
           sum(total_ms)::bigint as total_ms,
           sum(session_count)::bigint as session_count
      from per_domain_and_category
     group by domain
),
listed_domain as (
    select per_domain.domain,
           per_domain.category,
           svc.productivity(coalesce(known.score, 0)) as productivity,
           per_domain.total_ms,
           svc.percent(per_domain.total_ms, total.tracked_ms) as percent,
           per_domain.session_count
      from (
               select *
                 from per_domain
                order by total_ms desc,
                         domain collate "C"
                limit 1000
           ) as per_domain
     cross join total
      left join score as known using (category)
),
total_of_both as (
    select total.tracked_ms,
           total.app_count,
           total.session_count,
           on_sites.domains_ms,
           total.tracked_ms - on_sites.domains_ms as without_domain_ms
      from total,
           (
               select coalesce(sum(total_ms), 0)::bigint as domains_ms
                 from per_domain
           ) as on_sites
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       (select coalesce(json_agg(line order by place), '[]') from row) as data,
       (
           select coalesce(json_agg(listed_domain order by total_ms desc, domain collate "C"), '[]')
             from listed_domain
       ) as domains,
       (select row_to_json(total_of_both) from total_of_both) as totals,
--include removed_edges
  from slot
--include end_of_answer

-- name: categories
-- Time spent per category in a range, longest first, with the score of each.
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
      from per_category,
           total
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       (
           select coalesce(json_agg(row order by total_ms desc, category collate "C"), '[]')
             from row
       ) as data,
       (select row_to_json(total) from total) as totals,
--include removed_edges
  from slot
--include end_of_answer

-- name: daily_categories
-- Time spent per category on every day that overlaps a range, days in order, categories longest first.
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
           category,
           svc.productivity(score) as productivity,
           total_ms,
           svc.percent(total_ms, (sum(total_ms) over day)::bigint) as percent
      from per_category
    window day as (partition by position)
),
measured as (
    select position,
           sum(total_ms)::bigint as tracked_ms,
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
       %(given_tz)s::text as tz,
       (select coalesce(json_agg(row order by date), '[]') from row) as data,
       (
           select json_build_object('tracked_ms', coalesce(sum(tracked_ms), 0)::bigint)
             from row
       ) as totals,
--include removed_edges
  from requested
--include end_of_answer
