-- fragment: breakdown_slots
-- `wanted`: the keys. `slot`: the longest parts of the period that have one name for each key of time.
-- needs: frame (ends_at, first_day, last_day, starts_at, tz, week_starts_on)
-- gives: wanted (keys, slot)
-- gives: first_weekday (first)
-- gives: slot (date, ends_at, hour, position, starts_at)
wanted as (
    select keys,
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
      from frame,
           lateral svc.days(frame.first_day, frame.last_day + 1, frame.tz) as day
     where (select slot = 'day' from wanted)
     union all
    select hour.date,
           hour.hour,
           hour.starts_at,
           hour.ends_at
      from frame,
           lateral svc.hours(frame.first_day, frame.last_day + 1, frame.tz) as hour
     where (select slot = 'hour' from wanted)
     union all
    select week.date,
           null,
           svc.day_start(week.date, frame.tz),
           svc.day_start(week.date + 7, frame.tz)
      from frame,
           first_weekday,
           lateral generate_series(0, (frame.last_day + 1 - frame.first_day) / 7 + 1) as n,
           lateral (
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
      from frame,
           lateral (
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
                 from bucket,
                      frame
           ) as clipped
     where clipped.starts_at < clipped.ends_at
),

-- name: breakdown_slots
-- Slots as long as the keys allow, so that rollups of days and months are enough if no key is an hour or a day. For the
-- key weekday, each day is a slot, so a session that continues over midnight counts in both days. Slots whose names by
-- the keys of time are the same have the same group. Another statement adds up their time.
--
-- Arrays are text that Postgres reads again, `edges` in milliseconds. Rollups have no devices, so devices need raw
-- sessions, and cover at most half a year.
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
                              from frame,
                                   lateral generate_series(
                                       0, frame.last_day - frame.first_day + 3
                                   ) as n
                        )
               else due_days.dates
           end as dates
      from due_days,
           wanted
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
      from slot,
           first_weekday,
           lateral (
               select mod(extract(isodow from slot.date)::integer - first_weekday.first + 7, 7) as n
           ) as weekday,
           wanted,
           lateral unnest(wanted.keys) with ordinality as key (name, n)
),
keyed_slot as (
    select position,
           array_agg(name order by n) as names,
           array_agg(place order by n) as places
      from named_slot
     group by position
),
numbered_slot as (
    select keyed_slot.position,
           keyed_slot.names,
           dense_rank() over (order by keyed_slot.places)::integer as slot_group,
           slot.starts_at <= now() as has_begun
      from keyed_slot
      join slot using (position)
),
slot_group as (
    select slot_group,
           min(names) as names,
           bool_or(has_begun) as has_begun
      from numbered_slot
     group by slot_group
)
select (
           select (
                      array_agg((extract(epoch from starts_at) * 1000)::bigint order by position)
                      || (extract(epoch from max(ends_at)) * 1000)::bigint
                  )::text
             from slot
       ) as edges,
       (select array_agg(slot_group order by position)::text from numbered_slot) as slot_groups,
       (select array_agg(names[1] order by slot_group)::text from slot_group) as first_names,
       (select array_agg(names[2] order by slot_group)::text from slot_group) as second_names,
       (select array_agg(has_begun order by slot_group)::text from slot_group) as begun,
       (select dates::text from raw_days) as raw_days
--include end_of_answer

-- fragment: given_breakdown_slots
-- `slot`: those of `breakdown_slots`. `grouped_slot`: the group of each. A session that continues into the
-- next slot of the same group counts once in that group. `slot_group`: the names of each group.
-- gives: slot (ends_at, position, starts_at)
-- gives: slots (ends, starts)
-- gives: raw_days (dates)
-- gives: grouped_slot (is_first, position, slot_group)
-- gives: slot_group (first_name, has_begun, second_name, slot_group)
slot as (
    select position,
           starts_at,
           ends_at
      from (
               select n::integer as position,
                      timestamptz 'epoch' + at_ms * interval '1 millisecond' as starts_at,
                      timestamptz 'epoch' + lead(at_ms) over (order by n) * interval '1 millisecond' as ends_at
                 from unnest(%(edges)s::bigint[]) with ordinality as edge (at_ms, n)
           ) as between_edges
     where ends_at is not null
),
--include slots
raw_days as (
    select %(raw_days)s::date[] as dates
),
grouped_slot as materialized (
    select n::integer as position,
           slot_group,
           slot_group is distinct from lag(slot_group) over (order by n) as is_first
      from unnest(%(slot_groups)s::integer[]) with ordinality as given (slot_group, n)
),
slot_group as (
    select n::integer as slot_group,
           first_name,
           second_name,
           has_begun
      from unnest(%(first_names)s::text[], %(second_names)s::text[], %(begun)s::boolean[])
               with ordinality as given (first_name, second_name, has_begun, n)
),

-- fragment: ranked_rows
-- `ranked`: the sums of each combination of names, and its rank; `other`: the sums of the ranks beyond the wanted ones.
-- With keys of time alone, every day, week and so on that has begun has a row, empty or not.
-- needs: keyed (first_name, owned_ms, second_name, session_count, slot_group)
-- needs: slot_group (first_name, has_begun, second_name, slot_group)
-- needs: total (total_ms)
-- gives: ranked (first_name, rank, second_name, session_count, slot_group, total_ms)
-- gives: other (percent, rows, session_count, total_ms)
grouped as (
    select slot_group,
           first_name,
           second_name,
           sum(owned_ms)::bigint as total_ms,
           sum(session_count)::bigint as session_count
      from (
               select slot_group,
                      first_name,
                      second_name,
                      owned_ms,
                      session_count
                 from keyed
                union all
               select slot_group,
                      first_name,
                      second_name,
                      0,
                      0
                 from slot_group
                where %(is_of_time)s::boolean
                  and has_begun
           ) as counted
     group by slot_group,
              first_name,
              second_name
    having sum(session_count) > 0
        or sum(owned_ms) > 0
        or %(is_of_time)s::boolean
),
ranked as (
    select *,
           row_number() over (
               order by case when %(is_in_order)s::boolean then slot_group end desc,
                        total_ms desc,
                        session_count desc,
                        slot_group,
                        first_name collate "C",
                        second_name collate "C"
           ) as rank
      from grouped
),
other as (
    select count(*) as rows,
           coalesce(sum(total_ms), 0)::bigint as total_ms,
           svc.percent(coalesce(sum(total_ms), 0)::bigint, (select total_ms from total)) as percent,
           coalesce(sum(session_count), 0)::bigint as session_count
      from ranked
     where rank > %(skipped)s::integer + %(top)s::integer
)

-- fragment: rendered_breakdown
-- The columns of an answer that both kinds have.
-- needs: ranked (first_name, rank, second_name, session_count, slot_group, total_ms)
-- needs: other (percent, rows, session_count, total_ms)
-- needs: total (total_ms)
select %(kind)s::text as kind,
       %(group_by)s::text[] as group_by,
       (
           select coalesce(
                      json_agg(
                          json_build_object(
                              'by', case cardinality(%(group_by)s::text[])
                                  when 1 then json_build_object((%(group_by)s::text[])[1], ranked.first_name)
                                  else json_build_object(
                                      (%(group_by)s::text[])[1], ranked.first_name,
                                      (%(group_by)s::text[])[2], ranked.second_name
                                  )
                              end,
                              'total_ms', ranked.total_ms,
                              'percent', svc.percent(ranked.total_ms, total.total_ms),
                              'session_count', ranked.session_count
                          )
                          order by ranked.slot_group,
                                   ranked.rank
                      ),
                      '[]'
                  )
             from ranked,
                  total
            where ranked.rank > %(skipped)s::integer
              and ranked.rank <= %(skipped)s::integer + %(top)s::integer
       ) as data,
       (select row_to_json(other) from other) as other,
       (select row_to_json(total) from total) as totals,
       (select rows > 0 from other) or %(frame_is_cut)s::boolean as truncated

-- name: breakdown_of_apps
-- Time in applications, added up by up to two keys.
--include answer
with
--include given_breakdown_slots
--include spans_over_raw_days
--include categories
--include rule_inputs_in_spans
--include decided_category
--include passing
--include app_time
part as materialized (
    select session.position,
           session.app,
           session.domain,
           session.category,
           session.device,
           sum(session.started)::bigint as started,
           sum(session.continued)::bigint as continued,
           sum(session.owned_ms)::bigint as owned_ms
      from spent as session
      join passing using (app, category)
     where
--include passes_as_site
     group by session.position,
              session.app,
              session.domain,
              session.category,
              session.device
),
keyed as (
    select grouped_slot.slot_group,
           coalesce(
               slot_group.first_name,
               case (%(group_by)s::text[])[1]
                   when 'app' then part.app
                   when 'domain' then coalesce(part.domain, 'no site')
                   when 'category' then part.category
                   when 'device' then part.device
               end
           ) as first_name,
           coalesce(
               slot_group.second_name,
               case (%(group_by)s::text[])[2]
                   when 'app' then part.app
                   when 'domain' then coalesce(part.domain, 'no site')
                   when 'category' then part.category
                   when 'device' then part.device
               end
           ) as second_name,
           part.started + case when grouped_slot.is_first then part.continued else 0 end as session_count,
           part.owned_ms
      from part
      join grouped_slot using (position)
      join slot_group using (slot_group)
),
total as (
    select coalesce(sum(part.owned_ms), 0)::bigint as total_ms,
           coalesce(sum(part.started + case when part.position = 1 then part.continued else 0 end), 0)::bigint
               as session_count,
           coalesce(sum(part.owned_ms) filter (where known.score >= 1), 0)::bigint as productive_ms,
           coalesce(sum(part.owned_ms) filter (where coalesce(known.score, 0) = 0), 0)::bigint as neutral_ms,
           coalesce(sum(part.owned_ms) filter (where known.score <= -1), 0)::bigint as distracted_ms
      from part
      left join score as known using (category)
),
--include ranked_rows
--include rendered_breakdown
--include end_of_answer

-- name: breakdown_of_coding
-- Time in editors, added up by up to two keys.
--include answer
with
--include given_breakdown_slots
--include spans_over_raw_days
--include runs
--include coding_time
part as materialized (
    select session.position,
           session.project,
           session.language,
           session.device,
           sum(session.started)::bigint as started,
           sum(session.continued)::bigint as continued,
           sum(session.owned_ms)::bigint as owned_ms
      from coding_spent as session
     where
--include passes_as_coding
     group by session.position,
              session.project,
              session.language,
              session.device
),
keyed as (
    select grouped_slot.slot_group,
           coalesce(
               slot_group.first_name,
               case (%(group_by)s::text[])[1]
                   when 'project' then part.project
                   when 'language' then part.language
                   when 'device' then part.device
               end
           ) as first_name,
           coalesce(
               slot_group.second_name,
               case (%(group_by)s::text[])[2]
                   when 'project' then part.project
                   when 'language' then part.language
                   when 'device' then part.device
               end
           ) as second_name,
           part.started + case when grouped_slot.is_first then part.continued else 0 end as session_count,
           part.owned_ms
      from part
      join grouped_slot using (position)
      join slot_group using (slot_group)
),
total as (
    select coalesce(sum(owned_ms), 0)::bigint as total_ms,
           (
               coalesce(sum(started), 0) + coalesce(sum(continued) filter (where position = 1), 0)
           )::bigint as session_count,
           null::bigint as productive_ms,
           null::bigint as neutral_ms,
           null::bigint as distracted_ms
      from part
),
--include ranked_rows
--include rendered_breakdown
--include end_of_answer
