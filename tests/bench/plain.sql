-- The questions of the bench as they are answered from raw sessions: the plainest SQL that gives the right answers,
-- as the service read them before it had rollups. It shares with the service the category rules, how
-- days are cut and how a list is, and who owns the time.

-- fragment: sessions_in_bounds
-- `rule_inputs`: the sessions that count between the edges of `bounds`.
-- needs: bounds (ends_at, starts_at)
-- gives: rule_inputs (app, app_session_id, category, device_id, domain, ended_at, idempotency_key, started_at, title,
--     title_rule)
rule_inputs as (
    select session.app_session_id,
           session.app,
           session.title,
           session.domain,
           session.category,
           null::uuid as title_rule,
           session.started_at,
           session.ended_at,
           session.idempotency_key,
           session.device_id
      from activity.app_session as session
     where session.user_id = %(user_id)s
           -- No session is longer than a day, so the index on its start bounds the search.
       and session.started_at > (select starts_at - interval '24 hours' from bounds)
       and session.started_at < (select ends_at from bounds)
       and (
               session.ended_at > (select starts_at from bounds)
               or session.started_at >= (select starts_at from bounds)
           )
       and (select starts_at < ends_at from bounds)
       and not session.idle
),

-- fragment: app_timeline
-- `counted`: the sessions that count between the edges of `bounds`, clipped, and numbered so that of
-- two with the same start the owner comes last. `stretch`: each of them once without times, and once
-- for every segment in which it owns the time. Needs the fragments `sessions_in_bounds` and `decided_category`.
--
-- Sessions look rules up in maps, and segments learn their session's names through a window; neither is a
-- join. Fresh data has no statistics, the planner takes thousands of rows for one, and a nested loop over
-- them is quadratic: a week took 12 s that way and takes 30 ms this way.
-- needs: bounds (ends_at, starts_at)
-- needs: decided_category (app, known_as)
-- gives: counted (app, category, ends_at, n, starts_at)
-- gives: stretch (app, category, ends_at, n, starts_at)
counted as (
    select row_number() over (
               order by session.started_at,
                        device.name collate "C" desc,
                        session.app collate "C" desc,
                        session.idempotency_key collate "C" desc
           ) as n,
           session.app,
           session.known_as as category,
           greatest(session.started_at, (select starts_at from bounds)) as starts_at,
           least(session.ended_at, (select ends_at from bounds)) as ends_at
      from decided_category as session
      join activity.device as device
        on device.user_id = %(user_id)s
       and device.device_id = session.device_id
),
stretch as (
    select n,
           max(app) over session as app,
           max(category) over session as category,
           starts_at,
           ends_at
      from (
               select n,
                      app,
                      category,
                      null::timestamptz as starts_at,
                      null::timestamptz as ends_at
                 from counted
                union all
               select segment.n,
                      null,
                      null,
                      segment.starts_at,
                      segment.ends_at
                 from (
                          select array_agg(starts_at order by n) as starts,
                                 array_agg(ends_at order by n) as ends
                            from counted
                      ) as timeline
                cross join lateral svc.owned_segments(timeline.starts, timeline.ends) as segment
           ) as part
    window session as (partition by n)
),

-- fragment: coding_timeline
-- The same for coding sessions, which own time among themselves: `coding_counted` and `coding_stretch`.
-- A session without a language has the name that answers show for it. Needs `requested`.
-- needs: requested (ends_at, starts_at)
-- gives: coding_counted (ends_at, language, lines_added, lines_removed, n, project, starts_at)
-- gives: coding_stretch (ends_at, language, n, project, starts_at)
coding_counted as (
    select row_number() over (
               order by session.started_at,
                        device.name collate "C" desc,
                        session.project collate "C" desc,
                        coalesce(session.language, '') collate "C" desc,
                        coalesce(session.file, '') collate "C" desc,
                        session.idempotency_key collate "C" desc
           ) as n,
           session.project,
           coalesce(session.language, 'unknown') as language,
           case
               when session.started_at >= (select starts_at from requested) then session.lines_added
           end as lines_added,
           case
               when session.started_at >= (select starts_at from requested) then session.lines_removed
           end as lines_removed,
           greatest(session.started_at, (select starts_at from requested)) as starts_at,
           least(session.ended_at, (select ends_at from requested)) as ends_at
      from activity.coding_session as session
      join activity.device as device
        on device.user_id = %(user_id)s
       and device.device_id = session.device_id
     where session.user_id = %(user_id)s
       and session.started_at > (select starts_at - interval '24 hours' from requested)
       and session.started_at < (select ends_at from requested)
       and (
               session.ended_at > (select starts_at from requested)
               or session.started_at >= (select starts_at from requested)
           )
       and (select starts_at < ends_at from requested)
),
coding_stretch as (
    select n,
           max(project) over session as project,
           max(language) over session as language,
           starts_at,
           ends_at
      from (
               select n,
                      project,
                      language,
                      null::timestamptz as starts_at,
                      null::timestamptz as ends_at
                 from coding_counted
                union all
               select segment.n,
                      null,
                      null,
                      segment.starts_at,
                      segment.ends_at
                 from (
                          select array_agg(starts_at order by n) as starts,
                                 array_agg(ends_at order by n) as ends
                            from coding_counted
                      ) as timeline
                cross join lateral svc.owned_segments(timeline.starts, timeline.ends) as segment
           ) as part
    window session as (partition by n)
),

-- fragment: pieces
-- `piece`: what of the timeline falls into which `slot`, that is, each session once without times for every
-- slot in which it counts, and once for every part of a segment in which it owns the slot's time. Needs
-- `slot` (position, starts_at, ends_at), numbered from 1 in order of time without overlaps, and the
-- fragment `app_timeline`.
--
-- A binary search among the slots finds those that a stretch touches, and arrays tell their edges, so that
-- the cost never grows with the product of stretches and slots, whatever the planner takes for their number.
-- needs: counted (app, category, ends_at, n, starts_at)
-- needs: slot (ends_at, position, starts_at)
-- needs: stretch (app, category, ends_at, n, starts_at)
-- gives: slots (ends, starts)
-- gives: piece (app, category, ends_at, n, position, starts_at)
slots as (
    select array_agg(starts_at order by position) as starts,
           array_agg(ends_at order by position) as ends
      from slot
),
piece as (
    select touched.position,
           counted.n,
           counted.app,
           counted.category,
           null::timestamptz as starts_at,
           null::timestamptz as ends_at
      from counted
     cross join slots
     cross join lateral generate_series(
               greatest(width_bucket(counted.starts_at, slots.starts), 1),
               width_bucket(counted.ends_at, slots.starts)
           ) as touched (position)
     where counted.starts_at < slots.ends[touched.position]
       and (
               counted.ends_at > slots.starts[touched.position]
               or counted.starts_at >= slots.starts[touched.position]
           )
       and slots.starts[touched.position] < slots.ends[touched.position]
     union all
    select touched.position,
           stretch.n,
           stretch.app,
           stretch.category,
           greatest(stretch.starts_at, slots.starts[touched.position]),
           least(stretch.ends_at, slots.ends[touched.position])
      from stretch
     cross join slots
     cross join lateral generate_series(
               greatest(width_bucket(stretch.starts_at, slots.starts), 1),
               width_bucket(stretch.ends_at, slots.starts)
           ) as touched (position)
     where stretch.starts_at < slots.ends[touched.position]
       and stretch.ends_at > slots.starts[touched.position]
       and slots.starts[touched.position] < slots.ends[touched.position]
),

-- fragment: coding_pieces
-- The same of coding sessions: `coding_piece`. Needs the fragments `pieces` and `coding_timeline`.
-- needs: coding_counted (ends_at, language, n, project, starts_at)
-- needs: coding_stretch (ends_at, language, n, project, starts_at)
-- needs: slots (ends, starts)
-- gives: coding_piece (ends_at, language, n, position, project, starts_at)
coding_piece as (
    select touched.position,
           coding_counted.n,
           coding_counted.project,
           coding_counted.language,
           null::timestamptz as starts_at,
           null::timestamptz as ends_at
      from coding_counted
     cross join slots
     cross join lateral generate_series(
               greatest(width_bucket(coding_counted.starts_at, slots.starts), 1),
               width_bucket(coding_counted.ends_at, slots.starts)
           ) as touched (position)
     where coding_counted.starts_at < slots.ends[touched.position]
       and (
               coding_counted.ends_at > slots.starts[touched.position]
               or coding_counted.starts_at >= slots.starts[touched.position]
           )
       and slots.starts[touched.position] < slots.ends[touched.position]
     union all
    select touched.position,
           coding_stretch.n,
           coding_stretch.project,
           coding_stretch.language,
           greatest(coding_stretch.starts_at, slots.starts[touched.position]),
           least(coding_stretch.ends_at, slots.ends[touched.position])
      from coding_stretch
     cross join slots
     cross join lateral generate_series(
               greatest(width_bucket(coding_stretch.starts_at, slots.starts), 1),
               width_bucket(coding_stretch.ends_at, slots.starts)
           ) as touched (position)
     where coding_stretch.starts_at < slots.ends[touched.position]
       and coding_stretch.ends_at > slots.starts[touched.position]
       and slots.starts[touched.position] < slots.ends[touched.position]
),

-- fragment: apps_in_bounds
-- `per_app`: each application's sessions and what they owned between the edges of `bounds`. Its category is
-- the one with most of its time. `total`: their sums. Needs the fragment `app_timeline`.
-- needs: stretch (app, category, ends_at, n, starts_at)
-- gives: per_app (app, category, first_at, last_at, longest_ms, session_count, total_ms)
-- gives: total (app_count, session_count, tracked_ms)
per_session as (
    select n,
           app,
           category,
           coalesce(sum(ends_at - starts_at), interval '0') as duration,
           min(starts_at) as first_at,
           max(ends_at) as last_at
      from stretch
     group by n,
              app,
              category
),
per_category as (
    select app,
           category,
           sum(duration) as duration,
           max(duration) as longest,
           count(*) as session_count,
           min(first_at) as first_at,
           max(last_at) as last_at
      from per_session
     group by app,
              category
),
per_app as (
    select app,
           (array_agg(category order by duration desc, category collate "C"))[1] as category,
           svc.duration_ms(sum(duration)) as total_ms,
           svc.duration_ms(max(longest)) as longest_ms,
           sum(session_count)::bigint as session_count,
           min(first_at) as first_at,
           max(last_at) as last_at
      from per_category
     group by app
),
total as (
    select coalesce(sum(total_ms), 0)::bigint as tracked_ms,
           count(*) as app_count,
           coalesce(sum(session_count), 0)::bigint as session_count
      from per_app
),

-- fragment: unbroken
-- `bounds`: the range of `requested`, made longer at both ends until nobody was there for more than five
-- minutes. Switches and streaks never reach over such a break, so from here on they are what they would be
-- on the whole timeline. A break is looked for from session to session; in a dense timeline each is told
-- by its neighbour, which is why the one before is looked at first.
-- needs: requested (ends_at, starts_at)
-- gives: bounds (ends_at, starts_at)
bounds as (
    select coalesce(
               (
                   select session.started_at
                     from activity.app_session as session
                    where session.user_id = %(user_id)s
                      and session.started_at <= requested.starts_at
                      and session.ended_at > session.started_at
                      and not session.idle
                      and (
                              select true
                                from activity.app_session as earlier
                               where earlier.user_id = %(user_id)s
                                 and earlier.started_at < session.started_at
                                 and earlier.started_at >= session.started_at - interval '24 hours 5 minutes'
                                 and earlier.ended_at > earlier.started_at
                                 and earlier.ended_at >= session.started_at - interval '5 minutes'
                                 and not earlier.idle
                               order by earlier.started_at desc
                               limit 1
                          ) is null
                    order by session.started_at desc
                    limit 1
               ),
               requested.starts_at
           ) as starts_at,
           coalesce(
               (
                   select session.started_at
                     from activity.app_session as session
                    where session.user_id = %(user_id)s
                      and session.started_at >= requested.ends_at
                      and session.ended_at > session.started_at
                      and not session.idle
                      and (
                              select true
                                from activity.app_session as earlier
                               where earlier.user_id = %(user_id)s
                                 and earlier.started_at < session.started_at
                                 and earlier.started_at >= session.started_at - interval '24 hours 5 minutes'
                                 and earlier.ended_at > earlier.started_at
                                 and earlier.ended_at >= session.started_at - interval '5 minutes'
                                 and not earlier.idle
                               order by earlier.started_at desc
                               limit 1
                          ) is null
                    order by session.started_at
                    limit 1
               ),
               'infinity'
           ) as ends_at
      from requested
),

-- fragment: switches
-- `segment`: the owned segments of `bounds` in order of time, each with what its category scores. `spell`:
-- one application's segments with neither another's nor more than five minutes of nothing between. `run`:
-- the same once more, where spells of less than a second have been left out as glances; its category is
-- that of its longest segment. `switch`: where a run follows one of another application within five
-- minutes; `before` is the time that the one before owned, in the range or not. Needs `bounds` by `unbroken`.
-- needs: score (category, score)
-- needs: stretch (app, category, ends_at, n, starts_at)
-- gives: segment (app, category, ends_at, position, score, starts_at)
-- gives: switch (at, before, from_app, from_category, to_app, to_category)
segment as (
    select row_number() over (order by stretch.starts_at)::integer as position,
           stretch.app,
           stretch.category,
           coalesce(known.score, 0)::integer as score,
           stretch.starts_at,
           stretch.ends_at
      from stretch
      left join score as known using (category)
     where stretch.starts_at is not null
),
joined_segment as (
    select *,
           count(*) filter (where is_first) over (order by position) as n
      from (
               select *,
                      lag(app) over ordered is distinct from app
                          or starts_at - lag(ends_at) over ordered > interval '5 minutes' as is_first
                 from segment
               window ordered as (order by position)
           ) as compared
),
spell as (
    select app,
           (array_agg(category order by ends_at - starts_at desc, position))[1] as category,
           max(ends_at - starts_at) as longest,
           sum(ends_at - starts_at) as own,
           min(starts_at) as starts_at,
           max(ends_at) as ends_at
      from joined_segment
     group by n,
              app
),
joined_spell as (
    select *,
           count(*) filter (where is_first) over (order by starts_at) as n
      from (
               select *,
                      lag(app) over ordered is distinct from app
                          or starts_at - lag(ends_at) over ordered > interval '5 minutes' as is_first
                 from spell
                where own >= interval '1 second'
               window ordered as (order by starts_at)
           ) as compared
),
run as (
    select app,
           (array_agg(category order by longest desc, starts_at))[1] as category,
           sum(own) as own,
           min(starts_at) as starts_at,
           max(ends_at) as ends_at
      from joined_spell
     group by n,
              app
),
switch as (
    select at,
           from_app,
           to_app,
           from_category,
           to_category,
           before
      from (
               select starts_at as at,
                      lag(app) over ordered as from_app,
                      app as to_app,
                      lag(category) over ordered as from_category,
                      category as to_category,
                      lag(own) over ordered as before,
                      starts_at - lag(ends_at) over ordered as pause
                 from run
               window ordered as (order by starts_at)
           ) as followed
     where from_app <> to_app
       and pause <= interval '5 minutes'
),

-- fragment: streaks
-- `streak`: the streaks of focus in `bounds` (svc.focus_streaks), each whole, however much of it lies in the
-- range, with the reason for its end. Positions are those of `segment`. Needs the fragment `switches`.
-- needs: bounds (ends_at, starts_at)
-- needs: segment (ends_at, position, score, starts_at)
-- gives: streak (breaker_position, broken_at, ended_at, first_position, gap, last_position, reason, started_at)
streak as (
    select walk.first_position,
           walk.last_position,
           timeline.starts[walk.first_position] as started_at,
           timeline.ends[walk.last_position] as ended_at,
           case when walk.reason <> 'idle' then walk.breaker_position end as breaker_position,
           ending.reason,
           case
               when ending.reason in ('distraction', 'neutral') then after.starts_at
               else before.ends_at
           end as broken_at,
           case when ending.reason = 'idle' then after.starts_at - before.ends_at end as gap
      from bounds
     cross join (
               select array_agg(starts_at order by position) as starts,
                      array_agg(ends_at order by position) as ends,
                      array_agg((extract(epoch from starts_at) * 1000)::bigint order by position)
                          as starts_ms,
                      array_agg((extract(epoch from ends_at) * 1000)::bigint order by position) as ends_ms,
                      array_agg(score order by position) as scores
                 from segment
           ) as timeline
     cross join lateral svc.focus_streaks(timeline.starts_ms, timeline.ends_ms, timeline.scores) as walk
     cross join lateral (
               select coalesce(
                          timeline.starts[walk.breaker_position],
                          nullif(bounds.ends_at, 'infinity')
                      ) as starts_at
           ) as after
     cross join lateral (
               select timeline.ends[
                          coalesce(walk.breaker_position - 1, cardinality(timeline.ends))
                      ] as ends_at
           ) as before
     cross join lateral (
               select case
                          when walk.reason is not null then walk.reason
                          when after.starts_at is not null then 'idle'
                          when now() - before.ends_at < interval '5 minutes' then 'ongoing'
                          else 'end_of_data'
                      end as reason
           ) as ending
),

-- name: hourly
-- The hours of one local day, in order, with what they were spent on.
with slot as (
    select n as position,
           hour,
           utc_offset,
           starts_at,
           ends_at
      from svc.hours(%(date)s::date, %(date)s::date, %(tz)s)
),
requested as (
    select coalesce(min(starts_at), svc.day_start(%(date)s::date, %(tz)s)) as starts_at,
           coalesce(max(ends_at), svc.day_start(%(date)s::date, %(tz)s)) as ends_at
      from slot
),
bounds as (
    select starts_at,
           ends_at
      from requested
),
--include categories
--include sessions_in_bounds
--include decided_category
--include app_timeline
--include coding_timeline
--include pieces
--include coding_pieces
spent as (
    select part.position,
           part.category,
           coalesce(known.score, 0) as score,
           part.total_ms
      from (
               select position,
                      category,
                      coalesce(svc.duration_ms(sum(ends_at - starts_at)), 0) as total_ms
                 from piece
                group by position,
                         category
           ) as part
      left join score as known using (category)
),
measured as (
    select position,
           sum(total_ms)::bigint as total_ms,
           coalesce(sum(total_ms) filter (where score >= 1), 0)::bigint as productive_ms,
           coalesce(sum(total_ms) filter (where score = 0), 0)::bigint as neutral_ms,
           coalesce(sum(total_ms) filter (where score <= -1), 0)::bigint as distracted_ms,
           json_agg(
               json_build_object(
                   'category', category,
                   'productivity', svc.productivity(score),
                   'total_ms', total_ms
               )
               order by total_ms desc,
                        category collate "C"
           ) as categories
      from spent
     group by position
),
coded as (
    select position,
           svc.duration_ms(sum(ends_at - starts_at)) as coding_ms
      from coding_piece
     group by position
),
row as (
    select slot.hour,
           slot.utc_offset,
           svc.instant(slot.starts_at) as starts_at,
           svc.instant(slot.ends_at) as ends_at,
           coalesce(total_ms, 0) as total_ms,
           coalesce(productive_ms, 0) as productive_ms,
           coalesce(neutral_ms, 0) as neutral_ms,
           coalesce(distracted_ms, 0) as distracted_ms,
           coalesce(coding_ms, 0) as coding_ms,
           coalesce(categories, '[]') as categories
      from slot
      left join measured using (position)
      left join coded using (position)
)
select %(date)s::date as date,
       %(tz)s::text as tz,
       json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       (select coalesce(json_agg(row order by starts_at), '[]') from row) as data,
       (
           select json_build_object('tracked_ms', coalesce(sum(total_ms), 0)::bigint)
             from row
       ) as totals
  from requested

-- name: app_usage
-- Time spent per application in a range, longest first.
with bounds as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
--include categories
--include sessions_in_bounds
--include decided_category
--include app_timeline
--include apps_in_bounds
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
  from bounds

-- name: daily
-- Tracked, productive, neutral, distracted and coding time, and switches, for every calendar day, in order.
with slot as (
    select n as position,
           date,
           starts_at,
           ends_at
      from svc.days(%(from)s::date, %(to)s::date, %(tz)s)
),
requested as (
    select min(starts_at) as starts_at,
           max(ends_at) as ends_at
      from slot
),
--include unbroken
--include categories
--include sessions_in_bounds
--include decided_category
--include app_timeline
--include coding_timeline
--include switches
--include pieces
--include coding_pieces
spent as (
    select position,
           category,
           sum(ends_at - starts_at) as duration,
           count(*) filter (where starts_at is null) as session_count,
           min(starts_at) as first_at,
           max(ends_at) as last_at
      from piece
     group by position,
              category
),
measured as (
    select position,
           svc.duration_ms(sum(duration)) as tracked_ms,
           svc.duration_ms(sum(duration) filter (where score >= 1)) as productive_ms,
           svc.duration_ms(sum(duration) filter (where score <= -1)) as distracted_ms,
           sum(session_count)::bigint as session_count,
           min(first_at) as first_at,
           max(last_at) as last_at
      from spent
      left join score as known using (category)
     group by position
),
coded as (
    select position,
           svc.duration_ms(sum(ends_at - starts_at)) as coding_ms
      from coding_piece
     group by position
),
switched as (
    select touched.position,
           count(*) as app_switches
      from switch
     cross join slots
     cross join lateral width_bucket(switch.at, slots.starts) as touched (position)
     where switch.at < slots.ends[touched.position]
     group by touched.position
),
row as (
    select slot.date,
           svc.instant(slot.starts_at) as starts_at,
           svc.instant(slot.ends_at) as ends_at,
           coalesce(tracked_ms, 0) as tracked_ms,
           coalesce(productive_ms, 0) as productive_ms,
           coalesce(tracked_ms - coalesce(productive_ms, 0) - coalesce(distracted_ms, 0), 0) as neutral_ms,
           coalesce(distracted_ms, 0) as distracted_ms,
           coalesce(coding_ms, 0) as coding_ms,
           coalesce(app_switches, 0) as app_switches,
           coalesce(session_count, 0) as session_count,
           svc.instant(first_at) as first_activity_at,
           svc.instant(last_at) as last_activity_at,
           coalesce(tracked_ms, 0) > 0 or coalesce(coding_ms, 0) > 0 as has_data
      from slot
      left join measured using (position)
      left join coded using (position)
      left join switched using (position)
),
total as (
    select sum(tracked_ms)::bigint as tracked_ms,
           sum(productive_ms)::bigint as productive_ms,
           sum(neutral_ms)::bigint as neutral_ms,
           sum(distracted_ms)::bigint as distracted_ms,
           sum(coding_ms)::bigint as coding_ms,
           sum(app_switches)::bigint as app_switches,
           count(*) as days,
           count(*) filter (where has_data) as active_days
      from row
),
average as (
    select round(tracked_ms::numeric / nullif(active_days, 0))::bigint as tracked_ms,
           round(productive_ms::numeric / nullif(active_days, 0))::bigint as productive_ms,
           round(distracted_ms::numeric / nullif(active_days, 0))::bigint as distracted_ms,
           round(coding_ms::numeric / nullif(active_days, 0))::bigint as coding_ms
      from total
)
select json_build_object('from', %(from)s::date, 'to', %(to)s::date) as range,
       %(tz)s::text as tz,
       (select json_agg(row order by date) from row) as data,
       (select row_to_json(total) from total) as totals,
       (select row_to_json(average) from average) as daily_average

-- name: daily_categories
-- Time spent per category on every day that a range touches, days in order, categories longest first.
with
--include touched_days
bounds as (
    select starts_at,
           ends_at
      from requested
),
--include categories
--include sessions_in_bounds
--include decided_category
--include app_timeline
--include pieces
spent as (
    select position,
           category,
           coalesce(svc.duration_ms(sum(ends_at - starts_at)), 0) as total_ms
      from piece
     group by position,
              category
),
part as (
    select spent.position,
           sum(spent.total_ms) over day as tracked_ms,
           spent.category,
           svc.productivity(coalesce(known.score, 0)) as productivity,
           spent.total_ms,
           svc.percent(spent.total_ms, (sum(spent.total_ms) over day)::bigint) as percent
      from spent
      left join score as known using (category)
    window day as (partition by spent.position)
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

-- name: hourly_patterns
-- What an hour of each weekday looks like on average over whole weeks that end yesterday.
--
-- An average is over the times that an hour occurred since the first tracked day, empty ones too: a weekday
-- that is seldom worked on must not look full. Some have only an editor tracked, so time in either timeline
-- makes a day a tracked one. An hour that a change of clocks left out did not occur, and
-- one that it doubled occurred once.
with span as (
    select today - 7 * %(weeks)s::integer as first_day,
           today - 1 as last_day
      from (select (now() at time zone %(tz)s)::date as today) as clock
),
first_tracked as (
    select min((first.started_at at time zone %(tz)s)::date) as date
      from (
               (
                   select session.started_at
                     from activity.app_session as session
                    where session.user_id = %(user_id)s
                      and session.ended_at > session.started_at
                      and not session.idle
                    order by session.started_at
                    limit 1
               )
                union all
               (
                   select session.started_at
                     from activity.coding_session as session
                    where session.user_id = %(user_id)s
                      and session.ended_at > session.started_at
                    order by session.started_at
                    limit 1
               )
           ) as first
),
slot as (
    select hour.n as position,
           hour.date,
           hour.hour,
           hour.starts_at,
           hour.ends_at
      from span
     cross join lateral svc.hours(span.first_day, span.last_day, %(tz)s) as hour
),
requested as (
    select min(starts_at) as starts_at,
           max(ends_at) as ends_at
      from slot
),
bounds as (
    select starts_at,
           ends_at
      from requested
),
--include categories
--include sessions_in_bounds
--include decided_category
--include app_timeline
--include coding_timeline
--include pieces
--include coding_pieces
measured as (
    select position,
           sum(duration) as tracked,
           sum(duration) filter (where score >= 1) as productive,
           sum(duration) filter (where score <= -1) as distracted
      from (
               select position,
                      category,
                      sum(ends_at - starts_at) as duration
                 from piece
                where starts_at is not null
                group by position,
                         category
           ) as spent
      left join score as known using (category)
     group by position
),
coded as (
    select position,
           sum(ends_at - starts_at) as coding
      from coding_piece
     where starts_at is not null
     group by position
),
occurrence as (
    select slot.date,
           extract(isodow from slot.date)::integer as day_of_week,
           slot.hour,
           measured.tracked,
           measured.productive,
           measured.distracted,
           coded.coding
      from slot
      left join measured using (position)
      left join coded using (position)
),
per_hour as (
    select day_of_week,
           hour,
           svc.duration_ms(sum(tracked)) as tracked_ms,
           svc.duration_ms(sum(productive)) as productive_ms,
           svc.duration_ms(sum(distracted)) as distracted_ms,
           svc.duration_ms(sum(coding)) as coding_ms,
           count(distinct date) as sample_count
      from occurrence
     where date >= (select date from first_tracked)
     group by day_of_week,
              hour
),
per_day as (
    select day_of_week,
           svc.duration_ms(sum(tracked)) as tracked_ms,
           count(distinct date) as sample_count
      from occurrence
     where date >= (select date from first_tracked)
     group by day_of_week
),
row as (
    select day_of_week,
           hour,
           round(coalesce(tracked_ms, 0)::numeric / coalesce(sample_count, 1))::bigint as average_ms,
           round(coalesce(productive_ms, 0)::numeric / coalesce(sample_count, 1))::bigint
               as productive_average_ms,
           round(coalesce(distracted_ms, 0)::numeric / coalesce(sample_count, 1))::bigint
               as distracted_average_ms,
           round(coalesce(coding_ms, 0)::numeric / coalesce(sample_count, 1))::bigint
               as coding_average_ms,
           coalesce(sample_count, 0) as sample_count
      from generate_series(1, 7) as day_of_week
     cross join generate_series(0, 23) as hour
      left join per_hour using (day_of_week, hour)
),
day_row as (
    select day_of_week,
           round(coalesce(tracked_ms, 0)::numeric / coalesce(sample_count, 1))::bigint as average_ms,
           coalesce(sample_count, 0) as sample_count
      from generate_series(1, 7) as day_of_week
      left join per_day using (day_of_week)
)
select %(weeks)s::integer as weeks,
       %(tz)s::text as tz,
       json_build_object('from', first_day, 'to', last_day) as range,
       (
           select count(distinct (date - first_day) / 7)
             from occurrence
            where tracked > interval '0'
               or coding > interval '0'
       ) as weeks_with_data,
       (select json_agg(row order by day_of_week, hour) from row) as data,
       (select json_agg(day_row order by day_of_week) from day_row) as by_day
  from span

-- name: context_switches
-- Switches from one application to another in a range, the newest first; the pairs of applications between
-- which they happened most often; and how long they were used before, over the whole range.
with requested as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
--include unbroken
--include categories
--include sessions_in_bounds
--include decided_category
--include app_timeline
--include switches
switch_in_range as (
    select switch.*,
           svc.duration_ms(switch.before) as before_ms
      from switch
     cross join requested
     where switch.at >= requested.starts_at
       and switch.at < requested.ends_at
),
tracked as (
    select svc.duration_ms(
               sum(
                   least(segment.ends_at, requested.ends_at)
                   - greatest(segment.starts_at, requested.starts_at)
               )
           ) as ms
      from segment
     cross join requested
     where segment.starts_at < requested.ends_at
       and segment.ends_at > requested.starts_at
),
pair as (
    select from_app,
           to_app,
           count(*) as count,
           round(avg(before_ms))::bigint as average_before_ms,
           -- As a number, since a double would be rounded to the even neighbour.
           round(percentile_cont(0.5) within group (order by before_ms)::numeric)::bigint
               as median_before_ms
      from switch_in_range
     group by from_app,
              to_app
     order by count(*) desc,
              from_app collate "C",
              to_app collate "C"
     limit 50
),
total as (
    select count(*) as switch_count,
           round(avg(before_ms))::bigint as average_before_ms,
           round(percentile_cont(0.5) within group (order by before_ms)::numeric)::bigint
               as median_before_ms,
           round(count(*) * 3600000.0 / nullif((select ms from tracked), 0), 1) as per_active_hour
      from switch_in_range
),
list_row as (
    select newest.at,
           newest.id,
           row_to_json(line) as line
      from (
               -- No two happen at once, so any id will do for the cursor.
               select switch_in_range.*,
                      uuid '00000000-0000-0000-0000-000000000000' as id
                 from switch_in_range
                where (at, uuid '00000000-0000-0000-0000-000000000000')
                      < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
                order by at desc
                limit %(limit)s::bigint + 1
           ) as newest
     cross join lateral (
               select svc.instant(newest.at) as at,
                      newest.from_app,
                      newest.to_app,
                      newest.from_category,
                      newest.to_category,
                      newest.before_ms
           ) as line
),
--include page
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       json_build_object('max_gap_ms', 300000, 'min_session_ms', 1000) as definition,
       (
           select coalesce(
                      json_agg(
                          pair order by count desc, from_app collate "C", to_app collate "C"
                      ),
                      '[]'
                  )
             from pair
       ) as pairs,
       (select row_to_json(total) from total) as totals,
       page.*
  from page
 cross join requested

-- name: focus_streaks
-- Streaks of focus that overlap a range, the newest first, each whole and with what broke it; and how much
-- of the range they fill.
with requested as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
--include unbroken
--include categories
--include sessions_in_bounds
--include decided_category
--include app_timeline
--include switches
--include streaks
overlapping as (
    select streak.*,
           svc.duration_ms(
               least(streak.ended_at, requested.ends_at) - greatest(streak.started_at, requested.starts_at)
           ) as clipped_ms
      from streak
     cross join requested
     where streak.started_at < requested.ends_at
       and streak.ended_at > requested.starts_at
       and requested.starts_at < requested.ends_at
),
total as (
    select count(*) as streak_count,
           coalesce(sum(clipped_ms), 0)::bigint as focus_ms,
           coalesce(max(clipped_ms), 0) as longest_ms,
           round(avg(clipped_ms))::bigint as average_ms
      from overlapping
),
page_streak as (
    -- No two start at once, so any id will do for the cursor.
    select overlapping.*,
           uuid '00000000-0000-0000-0000-000000000000' as id
      from overlapping
     where (started_at, uuid '00000000-0000-0000-0000-000000000000')
           < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
     order by started_at desc
     limit %(limit)s::bigint + 1
),
part as (
    select page_streak.started_at,
           segment.app,
           segment.category,
           segment.score,
           segment.ends_at - segment.starts_at as own,
           switch.at is not null as is_switch
      from page_streak
     cross join lateral generate_series(page_streak.first_position, page_streak.last_position) as inside (position)
      join segment using (position)
      -- A run begins where one of its segments does.
      left join switch on switch.at = segment.starts_at
),
top_app as (
    select distinct on (started_at)
           started_at,
           app,
           count(*) over (partition by started_at) as app_count,
           sum(switch_count) over (partition by started_at)::bigint as switch_count
      from (
               select started_at,
                      app,
                      sum(own) as own,
                      count(*) filter (where is_switch) as switch_count
                 from part
                group by started_at,
                         app
           ) as used
     order by started_at,
              own desc,
              app collate "C"
),
top_category as (
    select distinct on (started_at)
           started_at,
           category,
           sum(productive) over (partition by started_at) as productive
      from (
               select started_at,
                      category,
                      sum(own) as own,
                      sum(own) filter (where score >= 1) as productive
                 from part
                group by started_at,
                         category
           ) as used
     order by started_at,
              own desc,
              category collate "C"
),
list_row as (
    select page_streak.started_at as at,
           page_streak.id,
           row_to_json(line) as line
      from page_streak
      join top_app using (started_at)
      join top_category using (started_at)
      left join segment as breaker on breaker.position = page_streak.breaker_position
     cross join lateral (
               select svc.instant(page_streak.started_at) as started_at,
                      svc.instant(page_streak.ended_at) as ended_at,
                      svc.duration_ms(page_streak.ended_at - page_streak.started_at) as duration_ms,
                      svc.duration_ms(top_category.productive) as productive_ms,
                      top_app.app as top_app,
                      top_category.category as top_category,
                      top_app.app_count,
                      top_app.switch_count,
                      json_build_object(
                          'reason', page_streak.reason,
                          'at', svc.instant(page_streak.broken_at),
                          'app', breaker.app,
                          'category', breaker.category,
                          'gap_ms', svc.duration_ms(page_streak.gap)
                      ) as broken_by
           ) as line
),
--include page
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       json_build_object(
           'min_streak_ms', 600000,
           'idle_gap_ms', 300000,
           'distraction_ms', 30000,
           'neutral_tolerance_ms', 120000
       ) as definition,
       (select row_to_json(total) from total) as totals,
       page.*
  from page
 cross join requested
