-- name: breakdown_frame
-- The days of the period, or as many of the last of them as are read. Hours cover at most as many days as a request
-- with dates may have, because the first day of "all" may have a wrong year.
--include answer
with
--include today
--include period
looked_at as (
    select case
               when %(kind)s::text = 'app' and 'device' = any (%(group_by)s::text[])
                   then greatest(first_day, last_day - 183)
               when 'hour' = any (%(group_by)s::text[])
                   then greatest(first_day, last_day - %(most_days)s::integer)
               else first_day
           end as first_day
      from frame
)
select frame.tz,
       frame.today,
       frame.week_starts_on,
       looked_at.first_day,
       frame.last_day,
       case
           when looked_at.first_day = frame.first_day then frame.starts_at
           else svc.day_start(looked_at.first_day, frame.tz)
       end as starts_at,
       frame.ends_at,
       looked_at.first_day > frame.first_day as is_cut,
--include frame_scopes
  from frame
 cross join looked_at
--include end_of_answer

-- fragment: breakdown_slots
-- `wanted`: the keys. `slot`: the longest parts of the period that have one name for each key of time.
-- needs: frame (ends_at, first_day, last_day, starts_at, tz, week_starts_on)
-- gives: wanted (is_in_order, is_of_time, keys, slot)
-- gives: first_weekday (first)
-- gives: slot (date, ends_at, hour, position, starts_at)
wanted as (
    select keys,
           keys <@ '{day,week,month,weekday,hour}' as is_of_time,
           keys <@ '{day,week,month}' as is_in_order,
           case
               when 'hour' = any (keys) then 'hour'
               when keys && '{day,weekday}' or keys @> '{week,month}' then 'day'
               when 'week' = any (keys) then 'week'
               when 'month' = any (keys) then 'month'
               else 'range'
           end as slot
      from (select %(group_by)s::text[] as keys) as requested
),
first_weekday as (
    select week_starts_on as first
      from frame
),
-- One day more than the range, as in the fragment `touched_days`.
bucket as (
    select day.date,
           null as hour,
           day.starts_at,
           day.ends_at
      from frame
     cross join lateral svc.days(frame.first_day, frame.last_day + 1, frame.tz) as day
     where (select slot = 'day' from wanted)
     union all
    select hour.date,
           hour.hour,
           hour.starts_at,
           hour.ends_at
      from frame
     cross join lateral svc.hours(frame.first_day, frame.last_day + 1, frame.tz) as hour
     where (select slot = 'hour' from wanted)
     union all
    select week.date,
           null,
           svc.day_start(week.date, frame.tz),
           svc.day_start(week.date + 7, frame.tz)
      from frame
     cross join first_weekday
     cross join lateral generate_series(0, (frame.last_day + 1 - frame.first_day) / 7 + 1) as n
     cross join lateral (
               select frame.first_day + 7 * n
                          - mod(extract(isodow from frame.first_day)::integer - first_weekday.first + 7, 7)
                          as date
           ) as week
     where (select slot = 'week' from wanted)
     union all
    select month.date,
           null,
           svc.day_start(month.date, frame.tz),
           svc.day_start((month.date + interval '1 month')::date, frame.tz)
      from frame
     cross join lateral (
               select first::date as date
                 from generate_series(
                          date_trunc('month', frame.first_day::timestamp),
                          (frame.last_day + 1)::timestamp,
                          interval '1 month'
                      ) as first
           ) as month
     where (select slot = 'month' from wanted)
     union all
    select null,
           null,
           frame.starts_at,
           frame.ends_at
      from frame
     where (select slot = 'range' from wanted)
),
slot as materialized (
    select row_number() over (order by clipped.starts_at)::integer as position,
           clipped.date,
           clipped.hour,
           clipped.starts_at,
           clipped.ends_at
      from (
               select bucket.date,
                      bucket.hour,
                      greatest(bucket.starts_at, frame.starts_at) as starts_at,
                      least(bucket.ends_at, frame.ends_at) as ends_at
                 from bucket
                cross join frame
           ) as clipped
     where clipped.starts_at < clipped.ends_at
),

-- name: get_time_breakdown
-- Time of one kind, added up by up to two keys. Slots are as long as the keys allow, so that rollups of days and
-- months are enough if no key is an hour or a day. For the key weekday, each day is a slot, so a session that
-- continues over midnight counts in both days.
--
-- Rollups have no devices, so devices need raw sessions, and cover at most half a year.
--include answer
with
--include frame
--include breakdown_slots
--include due_days
raw_days as (
    select case
               when 'device' = any (wanted.keys)
                   then array(
                            select frame.first_day - 1 + n
                              from frame
                             cross join lateral generate_series(
                                       0, frame.last_day - frame.first_day + 3
                                   ) as n
                        )
               else due_days.dates
           end as dates
      from due_days
     cross join wanted
),
--include spans_over_raw_days
--include categories
--include rule_inputs_in_spans
--include decided_category
--include passing
--include app_time
--include coding_time
part as materialized (
    select spent.position,
           spent.app,
           spent.domain,
           spent.category,
           spent.device,
           null as project,
           null as language,
           sum(spent.started)::bigint as started,
           sum(spent.continued)::bigint as continued,
           sum(spent.owned_ms)::bigint as owned_ms
      from spent
      join passing using (app, category)
     where %(kind)s::text = 'app'
     group by spent.position,
              spent.app,
              spent.domain,
              spent.category,
              spent.device
     union all
    select session.position,
           null,
           null,
           null,
           session.device,
           session.project,
           session.language,
           sum(session.started)::bigint,
           sum(session.continued)::bigint,
           sum(session.owned_ms)::bigint
      from coding_spent as session
     where %(kind)s::text = 'coding'
       and
--include passes_as_coding
     group by session.position,
              session.device,
              session.project,
              session.language
),
-- The name of each slot for each key of time, and its place in the order.
named_slot as (
    select slot.position,
           key.n,
           case key.name
               when 'day' then slot.date::text
               when 'week' then (slot.date - weekday.n)::text
               when 'month' then to_char(slot.date, 'YYYY-MM')
               when 'weekday' then to_char(slot.date, 'FMDay')
               when 'hour' then to_char(slot.hour, 'FM00":00"')
           end as name,
           case key.name
               when 'day' then slot.date - date '1970-01-01'
               when 'week' then slot.date - weekday.n - date '1970-01-01'
               when 'month' then date_trunc('month', slot.date::timestamp)::date - date '1970-01-01'
               when 'weekday' then weekday.n
               when 'hour' then slot.hour
           end as place
      from slot
     cross join first_weekday
     cross join lateral (
               select mod(extract(isodow from slot.date)::integer - first_weekday.first + 7, 7) as n
           ) as weekday
     cross join wanted
     cross join lateral unnest(wanted.keys) with ordinality as key (name, n)
),
-- A session that continues into the next slot with the same name is counted once for that name.
keyed_slot as materialized (
    select *,
           (places, names) is distinct from (lag(places) over ordered, lag(names) over ordered) as is_first
      from (
               select position,
                      array_agg(name order by n) as names,
                      array_agg(place order by n) as places
                 from named_slot
                group by position
           ) as keyed
    window ordered as (order by position)
),
keyed as (
    select keyed_slot.places,
           coalesce(
               keyed_slot.names[1],
               case wanted.keys[1]
                   when 'app' then part.app
                   when 'domain' then part.domain
                   when 'category' then part.category
                   when 'project' then part.project
                   when 'language' then part.language
                   when 'device' then part.device
               end
           ) as first_name,
           coalesce(
               keyed_slot.names[2],
               case wanted.keys[2]
                   when 'app' then part.app
                   when 'domain' then part.domain
                   when 'category' then part.category
                   when 'project' then part.project
                   when 'language' then part.language
                   when 'device' then part.device
               end
           ) as second_name,
           part.started + case when keyed_slot.is_first then part.continued else 0 end as session_count,
           part.owned_ms
      from part
      join keyed_slot using (position)
     cross join wanted
     union all
    -- With keys of time alone, every day, week and so on that has begun has a row, empty or not.
    select keyed_slot.places,
           keyed_slot.names[1],
           keyed_slot.names[2],
           0,
           0
      from keyed_slot
      join slot using (position)
     where (select is_of_time from wanted)
       and slot.starts_at <= now()
),
grouped as (
    select places,
           first_name,
           second_name,
           sum(owned_ms)::bigint as total_ms,
           sum(session_count)::bigint as session_count
      from keyed
     group by places,
              first_name,
              second_name
    having sum(session_count) > 0
        or sum(owned_ms) > 0
        or (select is_of_time from wanted)
),
ranked as (
    select grouped.*,
           row_number() over (
               order by case when wanted.is_in_order then grouped.places end desc,
                        grouped.total_ms desc,
                        grouped.session_count desc,
                        grouped.places,
                        grouped.first_name collate "C",
                        grouped.second_name collate "C"
           ) as rank
      from grouped
     cross join wanted
),
total as (
    select coalesce(sum(part.owned_ms), 0)::bigint as total_ms,
           (
               coalesce(sum(part.started), 0)
               + coalesce(sum(part.continued) filter (where part.position = 1), 0)
           )::bigint as session_count,
           case when %(kind)s::text = 'app'
               then coalesce(sum(part.owned_ms) filter (where known.score >= 1), 0)::bigint
           end as productive_ms,
           case when %(kind)s::text = 'app'
               then coalesce(sum(part.owned_ms) filter (where coalesce(known.score, 0) = 0), 0)::bigint
           end as neutral_ms,
           case when %(kind)s::text = 'app'
               then coalesce(sum(part.owned_ms) filter (where known.score <= -1), 0)::bigint
           end as distracted_ms
      from part
      left join score as known using (category)
),
other as (
    select count(*) as rows,
           coalesce(sum(total_ms), 0)::bigint as total_ms,
           svc.percent(coalesce(sum(total_ms), 0)::bigint, (select total_ms from total)) as percent,
           coalesce(sum(session_count), 0)::bigint as session_count
      from ranked
     where rank > %(top)s::integer
)
select %(kind)s::text as kind,
       (select keys from wanted) as group_by,
       (
           select coalesce(
                      json_agg(
                          json_build_object(
                              'by', case cardinality(wanted.keys)
                                  when 1 then json_build_object(wanted.keys[1], ranked.first_name)
                                  else json_build_object(
                                      wanted.keys[1], ranked.first_name,
                                      wanted.keys[2], ranked.second_name
                                  )
                              end,
                              'total_ms', ranked.total_ms,
                              'percent', svc.percent(ranked.total_ms, total.total_ms),
                              'session_count', ranked.session_count
                          )
                          order by ranked.places,
                                   ranked.rank
                      ),
                      '[]'
                  )
             from ranked
            cross join wanted
            cross join total
            where ranked.rank <= %(top)s::integer
       ) as data,
       (select row_to_json(other) from other) as other,
       (select row_to_json(total) from total) as totals,
       (select rows > 0 from other) or %(frame_is_cut)s::boolean as truncated
  from frame
--include end_of_answer
