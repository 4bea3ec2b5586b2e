-- What the questions about activity share: which time is whose, what falls into which category, what lies
-- in which day or hour, how far a stretch without a break reaches, and how a list is cut into pages.

-- fragment: categories
-- `rule`: the caller's own category rules. `score`: how productive time in each category is, the caller's
-- own opinion before the service's; a category that is not there scores 0.
rule as (
    select field,
           match,
           pattern,
           category,
           row_number() over (order by priority, category_rule_id) as position
      from activity.category_rule
     where user_id = %(user_id)s
),
own_score as (
    select category,
           score
      from activity.category_score
     where user_id = %(user_id)s
),
score as (
    select category,
           score
      from own_score
     union all
    select category,
           score
      from reference.category
     where category not in (select category from own_score)
),

-- fragment: sessions_in_bounds
-- `session_in_bounds`: the sessions that count between the edges of `bounds`.
session_in_bounds as (
    select session.app_session_id,
           session.app,
           session.title,
           session.domain,
           session.category,
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

-- fragment: judged
-- `judged`: the sessions of `session_in_bounds`, each with the category that is `known_as`. Needs the fragment
-- `categories`.
--
-- What decides first: the caller's rules, then what the tracker said, then the service's rules, a site's
-- before an application's. Rules are tried once for each thing they can look at, not for each session,
-- and `ruled` holds maps from those things to the position of the first rule that matches.
looked_at as materialized (
    select 'app' as field,
           app as thing
      from session_in_bounds
     where exists (select from rule where field = 'app')
     union
    select 'title',
           title
      from session_in_bounds
     where title is not null
       and exists (select from rule where field = 'title')
     union
    select 'domain',
           domain
      from session_in_bounds
     where domain is not null
       and exists (select from rule where field = 'domain')
),
ruled as (
    select jsonb_object_agg(thing, position) filter (where field = 'app') as by_app,
           jsonb_object_agg(thing, position) filter (where field = 'title') as by_title,
           jsonb_object_agg(thing, position) filter (where field = 'domain') as by_domain
      from (
               select found.field,
                      found.thing,
                      min(rule.position) as position
                 from rule
                -- One rule after the other goes through all things, which `offset` holds the planner to: the
                -- server keeps no more than 32 regular expressions compiled.
                cross join lateral (
                          select looked_at.field,
                                 looked_at.thing
                            from looked_at
                           where looked_at.field = rule.field
                             and svc.matches(looked_at.thing, rule.match, rule.pattern)
                          offset 0
                      ) as found
                group by found.field,
                         found.thing
           ) as first_match
),
rule_category as (
    select array_agg(category order by position) as categories
      from rule
),
known_rule as (
    select jsonb_object_agg(pattern, category) filter (where field = 'app') as by_app,
           jsonb_object_agg(pattern, category) filter (where field = 'domain') as by_domain
      from reference.category_rule
),
judged as (
    select session.*,
           coalesce(
               (select categories from rule_category)[
                   least(
                       ((select by_app from ruled) -> session.app)::integer,
                       ((select by_title from ruled) -> session.title)::integer,
                       ((select by_domain from ruled) -> session.domain)::integer
                   )
               ],
               session.category,
               (select by_domain from known_rule) ->> session.domain,
               (select by_app from known_rule) ->> lower(session.app),
               'Uncategorized'
           ) as known_as
      from session_in_bounds as session
),

-- fragment: app_timeline
-- `counted`: the sessions that count between the edges of `bounds`, clipped, and numbered so that of
-- two with the same start the owner comes last. `stretch`: each of them once without times, and once
-- for every segment in which it owns the time. Needs the fragments `sessions_in_bounds` and `judged`.
--
-- Sessions look rules up in maps, and segments learn their session's names through a window; neither is a
-- join. Fresh data has no statistics, the planner takes thousands of rows for one, and a nested loop over
-- them is quadratic: a week took 12 s that way and takes 30 ms this way.
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
      from judged as session
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
-- A session without a language has the name that answers show for it. Needs `asked`.
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
               when session.started_at >= (select starts_at from asked) then session.lines_added
           end as lines_added,
           case
               when session.started_at >= (select starts_at from asked) then session.lines_removed
           end as lines_removed,
           greatest(session.started_at, (select starts_at from asked)) as starts_at,
           least(session.ended_at, (select ends_at from asked)) as ends_at
      from activity.coding_session as session
      join activity.device as device
        on device.user_id = %(user_id)s
       and device.device_id = session.device_id
     where session.user_id = %(user_id)s
       and session.started_at > (select starts_at - interval '24 hours' from asked)
       and session.started_at < (select ends_at from asked)
       and (
               session.ended_at > (select starts_at from asked)
               or session.started_at >= (select starts_at from asked)
           )
       and (select starts_at < ends_at from asked)
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

-- fragment: touched_days
-- `asked`, and as `slot` the days that a range of instants touches; the first and the last may be cut off.
-- A range that begins or ends where clocks went back over midnight touches a day beside that of its
-- edge's date, so one day more is looked at.
asked as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
slot as (
    select row_number() over (order by date)::integer as position,
           date,
           starts_at,
           ends_at
      from (
               select day.date,
                      greatest(day.starts_at, asked.starts_at) as starts_at,
                      least(day.ends_at, asked.ends_at) as ends_at
                 from asked
                cross join lateral svc.days(
                          (asked.starts_at at time zone %(tz)s)::date,
                          (asked.ends_at at time zone %(tz)s)::date + 1,
                          %(tz)s
                      ) as day
           ) as clipped
     where starts_at < ends_at
),

-- fragment: apps
-- `per_app`: each application's sessions and what they owned between the edges of `bounds`. Its category is
-- the one with most of its time. `total`: their sums. Needs the fragment `app_timeline`.
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
-- `bounds`: the range of `asked`, made longer at both ends until nobody was there for more than five
-- minutes. Switches and streaks never reach over such a break, so from here on they are what they would be
-- on the whole timeline. A break is looked for from session to session; in a dense timeline each is told
-- by its neighbour, which is why the one before is looked at first.
bounds as (
    select coalesce(
               (
                   select session.started_at
                     from activity.app_session as session
                    where session.user_id = %(user_id)s
                      and session.started_at <= asked.starts_at
                      and session.ended_at > session.started_at
                      and not session.idle
                      and (
                              select true
                                from activity.app_session as earlier
                               where earlier.user_id = %(user_id)s
                                 and earlier.started_at < session.started_at
                                 and earlier.started_at > session.started_at - interval '24 hours 5 minutes'
                                 and earlier.ended_at > earlier.started_at
                                 and earlier.ended_at >= session.started_at - interval '5 minutes'
                                 and not earlier.idle
                               order by earlier.started_at desc
                               limit 1
                          ) is null
                    order by session.started_at desc
                    limit 1
               ),
               asked.starts_at
           ) as starts_at,
           coalesce(
               (
                   select session.started_at
                     from activity.app_session as session
                    where session.user_id = %(user_id)s
                      and session.started_at >= asked.ends_at
                      and session.ended_at > session.started_at
                      and not session.idle
                      and (
                              select true
                                from activity.app_session as earlier
                               where earlier.user_id = %(user_id)s
                                 and earlier.started_at < session.started_at
                                 and earlier.started_at > session.started_at - interval '24 hours 5 minutes'
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
      from asked
),

-- fragment: switches
-- `segment`: the owned segments of `bounds` in order of time, each with what its category scores. `spell`:
-- one application's segments with neither another's nor more than five minutes of nothing between. `run`:
-- the same once more, where spells of less than a second have been left out as glances; its category is
-- that of its longest segment. `switch`: where a run follows one of another application within five
-- minutes; `before` is the time that the one before owned, in the range or not. Needs `bounds` by `unbroken`.
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
streak as (
    select walk.first_position,
           walk.last_position,
           walk.started_at,
           walk.ended_at,
           walk.productive,
           case
               when walk.reason is not null then walk.reason
               -- What comes after `bounds` comes after a pause of more than five minutes.
               when bounds.ends_at < 'infinity' then 'idle'
               when now() - walk.broken_at < interval '5 minutes' then 'ongoing'
               else 'end_of_data'
           end as reason,
           walk.broken_at,
           walk.breaker_position,
           case
               when walk.reason is not null then walk.gap
               when bounds.ends_at < 'infinity' then bounds.ends_at - walk.broken_at
           end as gap
      from bounds
     cross join (
               select array_agg(starts_at order by position) as starts,
                      array_agg(ends_at order by position) as ends,
                      array_agg(score order by position) as scores
                 from segment
           ) as timeline
     cross join lateral svc.focus_streaks(timeline.starts, timeline.ends, timeline.scores) as walk
),

-- fragment: page
-- What a list shows of `found`, which has the columns `at`, `id` and `line` (the row as JSON), the newest
-- first, and one row more than the limit where there are more. It is the last one before the answer.
page as (
    select coalesce(json_agg(line order by n) filter (where n <= %(limit)s::bigint), '[]') as data,
           count(*) filter (where n <= %(limit)s::bigint) as count,
           %(limit)s::bigint as limit,
           count(*) > %(limit)s::bigint as has_more,
           case
               when count(*) <= %(limit)s::bigint then null
               when %(limit)s::bigint = 0 then %(cursor)s::text
               else (array_agg(svc.cursor(at, id)) filter (where n = %(limit)s::bigint))[1]
           end as next_cursor
      from (
               select row_number() over (order by at desc, id desc) as n,
                      at,
                      id,
                      line
                 from found
           ) as numbered
)
