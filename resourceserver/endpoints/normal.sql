-- fragment: same_weekdays
-- `requested`: the requested day, and the instant up to which it counts: the given one, on the day and not in the
-- future. `day`: that day, and before it the same weekdays of eight weeks, each up to the instant at which it is as
-- late. `slot`: these days, as the days that may have been reported.
-- gives: requested (counted_until, date, ends_at, starts_at)
-- gives: day (counted_until, date, ends_at, n, starts_at)
-- gives: slot (date, ends_at, position, starts_at)
requested as (
    select date,
           starts_at,
           ends_at,
           greatest(least(coalesce(%(until)s::timestamptz, ends_at), ends_at, now()), starts_at) as counted_until
      from svc.days(%(date)s::date, %(date)s::date, %(tz)s)
),
day as (
    select weekday.n,
           weekday.date,
           weekday.starts_at,
           weekday.ends_at,
           case
               when requested.counted_until = requested.ends_at then weekday.ends_at
               else greatest(
                        least(
                            (weekday.date + (requested.counted_until at time zone %(tz)s)::time)
                                at time zone %(tz)s,
                            weekday.ends_at
                        ),
                        weekday.starts_at
                    )
           end as counted_until
      from requested,
           lateral (
               select eighth.n,
                      day.date,
                      day.starts_at,
                      day.ends_at
                 from generate_series(1, 8) as eighth (n),
                      lateral svc.days(
                          requested.date - 7 * (9 - eighth.n),
                          requested.date - 7 * (9 - eighth.n),
                          %(tz)s
                      ) as day
           ) as weekday
     union all
    select 9,
           date,
           starts_at,
           ends_at,
           counted_until
      from requested
),
slot as (
    select n as position,
           date,
           starts_at,
           ends_at
      from day
),

-- fragment: rendered_weekdays
-- The members of an answer about a day and the same weekdays before it, and what the next statements need: the days
-- of these that were reported.
-- needs: day (counted_until, date, n)
-- needs: reported (date)
-- needs: requested (counted_until, date, ends_at, starts_at)
requested.date,
%(given_tz)s::text as tz,
extract(isodow from requested.date)::integer as day_of_week,
json_build_object(
    'from', svc.instant(requested.starts_at),
    'to', svc.instant(requested.counted_until)
) as range,
requested.counted_until = requested.ends_at as is_whole_day,
(
    select json_agg(
               json_build_object(
                   'date', day.date,
                   'until', svc.instant(day.counted_until),
                   'reported', reported.date is not null
               )
               order by day.n
           )
      from day
      left join reported using (date)
     where day.n < 9
) as days,
(select coalesce(json_agg(date order by date), '[]') from reported) as reported

-- name: normal
-- A day and the same weekdays of the eight weeks before it, those of them that were reported, and the scopes of the
-- token. `stored` are the values that stored summaries have of whole days, if these are of the same zone and up to date.
-- All other values are read by metric (timeline/measured.sql).
--include answer
with
--include same_weekdays
--include reported_days
stored as (
    select summary.date,
           json_build_object(
               'tracked_ms', summary.tracked_ms,
               'productive_ms', summary.productive_ms,
               'distracted_ms', summary.distracted_ms,
               'focus_ms', summary.focus_ms,
               'coding_ms', summary.coding_ms
           ) as measures
      from activity.daily_summary as summary
     where (select counted_until = ends_at from requested)
       and summary.user_id = %(user_id)s
       and summary.date = any (array(select date from reported))
       and summary.tz = %(tz)s::text
       and summary.date not in (
               select pending.date
                 from svc.pending_days(
                          %(user_id)s,
                          %(date)s::date - 56,
                          %(date)s::date
                      ) as pending (date)
           )
),
day_slots as (
    select json_build_object(
               'dates', json_agg(date order by n),
               'starts', json_agg(starts_at order by n),
               'ends', json_agg(counted_until order by n)
           ) as slots
      from day
)
select string_to_array(current_setting('svc.scopes'), ' ') as scopes,
       (select slots from day_slots) as slots,
       (select coalesce(json_object_agg(date, measures), '{}') from stored) as stored,
--include rendered_weekdays
  from requested
--include end_of_answer

-- name: day_difference
-- The same days. `time_of_weekdays` then reads what they were spent on.
--include answer
with
--include same_weekdays
--include reported_days
counted_day as (
    select day.*
      from day
      join reported using (date)
)
select (
           select json_build_object(
                      'starts', json_agg(starts_at order by n),
                      'ends', json_agg(counted_until order by n)
                  )
             from counted_day
       ) as slots,
--include rendered_weekdays
  from requested
--include end_of_answer

-- name: time_of_weekdays
-- How the time of the last of the given days differs from the mean of the days before it, by application and by
-- category, the largest difference first; one more row has the sums of all after the first 20.
--
-- Means are rounded so that those of a list add up to the mean of all: each is cut to whole milliseconds, and the
-- milliseconds that are missing then go to those that lost most. So each is less than a millisecond from the exact
-- mean, and differences add up exactly.
--include answer
with
--include given_slots
--include spans
--include categories
--include rule_inputs_in_spans
--include decided_category
--include app_time
used as (
    select position,
           app,
           category,
           sum(owned_ms)::bigint as owned_ms
      from spent
     where owned_ms > 0
     group by position,
              app,
              category
),
compared as (
    select max(position) as last,
           max(position) - 1 as days
      from slot
),
per_name as (
    select 'apps' as list,
           app as name,
           position,
           sum(owned_ms) as owned_ms
      from used
     group by app,
              position
     union all
    select 'categories',
           category,
           position,
           sum(owned_ms)
      from used
     group by category,
              position
),
summed as (
    select per_name.list,
           per_name.name,
           compared.days as compared_days,
           coalesce(sum(per_name.owned_ms) filter (where per_name.position = compared.last), 0)::bigint
               as total_ms,
           coalesce(sum(per_name.owned_ms) filter (where per_name.position < compared.last), 0)::bigint
               as before_ms,
           count(*) filter (where per_name.position < compared.last) as days
      from per_name,
           compared
     group by per_name.list,
              per_name.name,
              compared.days
),
averaged as (
    select summed.*,
           before_ms / compared_days
               + case
                     when row_number() over (
                         partition by list
                         order by mod(before_ms, compared_days) desc,
                                  name collate "C"
                     ) <= round(sum(before_ms) over of_list / compared_days)
                          - sum(before_ms / compared_days) over of_list
                         then 1
                     else 0
                 end as normal_ms
      from summed
    window of_list as (partition by list)
),
placed as (
    select *,
           total_ms - normal_ms as difference_ms,
           row_number() over (
               partition by list
               order by abs(total_ms - normal_ms) desc,
                        name collate "C"
           ) as place
      from averaged
),
app_category as (
    select app,
           (array_agg(category order by owned_ms desc, category collate "C"))[1] as category
      from (
               select app,
                      category,
                      sum(owned_ms) as owned_ms
                 from used
                group by app,
                         category
           ) as pair
     group by app
),
row as (
    select placed.list,
           placed.place,
           placed.name,
           kind.category,
           svc.productivity(coalesce(known.score, 0)) as productivity,
           placed.total_ms,
           placed.normal_ms,
           placed.difference_ms,
           placed.days,
           case
               when placed.before_ms = 0 then 'new'
               when placed.total_ms = 0 then 'absent'
               when placed.difference_ms > 0 then 'more'
               when placed.difference_ms < 0 then 'less'
               else 'same'
           end as change
      from placed
      left join app_category on placed.list = 'apps' and app_category.app = placed.name
     cross join lateral (
               select case placed.list when 'apps' then app_category.category else placed.name end as category
           ) as kind
      left join score as known on known.category = kind.category
     where placed.place <= 20
     union all
    select list,
           21,
           null,
           null,
           null,
           sum(total_ms)::bigint,
           sum(normal_ms)::bigint,
           sum(difference_ms)::bigint,
           null,
           null
      from placed
     where place > 20
     group by list
)
select json_build_object(
           'tracked_ms', coalesce(sum(total_ms), 0)::bigint,
           'normal_ms', coalesce(sum(normal_ms), 0)::bigint,
           'difference_ms', coalesce(sum(difference_ms), 0)::bigint,
           'days', (select days from compared)
       ) as totals,
       json_build_object(
           'apps', coalesce(
               json_agg(
                   json_build_object(
                       'app', name,
                       'category', category,
                       'productivity', productivity,
                       'total_ms', total_ms,
                       'normal_ms', normal_ms,
                       'difference_ms', difference_ms,
                       'days', days,
                       'change', change
                   )
                   order by place
               ),
               '[]'
           ),
           'categories', (
               select coalesce(
                          json_agg(
                              json_build_object(
                                  'category', category,
                                  'productivity', productivity,
                                  'total_ms', total_ms,
                                  'normal_ms', normal_ms,
                                  'difference_ms', difference_ms,
                                  'days', days,
                                  'change', change
                              )
                              order by place
                          ),
                          '[]'
                      )
                 from row
                where list = 'categories'
           )
       ) as data
  from row
 where list = 'apps'
--include end_of_answer
