-- What the questions about activity share: which time is whose, what falls into which category, how far
-- a stretch without a break reaches, and how a list is cut into pages.

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

-- fragment: app_timeline
-- `counted`: the sessions that count between the edges of `bounds`, clipped, and numbered so that of
-- two with the same start the owner comes last. `stretch`: each of them once without times, and once
-- for every segment in which it owns the time. Needs `bounds` and the fragment `categories`.
--
-- A session's category is the first of: the caller's rules, what its tracker said, the service's rules, a
-- site's before an application's. Rules are tried once for each thing they can look at, not for each session.
--
-- A segment learns its session's names through a window and not by a join. Fresh data has no
-- statistics, the planner takes thousands of rows for one, and a nested loop over them is quadratic:
-- a week took 12 s that way and takes 30 ms this way.
session_in_bounds as (
    select session.app,
           coalesce(session.title, '') as title,
           coalesce(session.domain, '') as domain,
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
ruled as (
    select thing.app,
           thing.title,
           thing.domain,
           first_rule.category
      from (
               select distinct app,
                      title,
                      domain
                 from session_in_bounds
                where exists (select from rule)
           ) as thing
     cross join lateral (
               select rule.category
                 from rule
                where svc.matches(
                          case rule.field
                              when 'app' then thing.app
                              when 'title' then thing.title
                              when 'domain' then thing.domain
                          end,
                          rule.match,
                          rule.pattern
                      )
                order by rule.position
                limit 1
           ) as first_rule
),
counted as (
    select row_number() over (
               order by session.started_at,
                        device.name collate "C" desc,
                        session.app collate "C" desc,
                        session.idempotency_key collate "C" desc
           ) as n,
           session.app,
           coalesce(
               ruled.category,
               session.category,
               known_domain.category,
               known_app.category,
               'Uncategorized'
           ) as category,
           greatest(session.started_at, (select starts_at from bounds)) as starts_at,
           least(session.ended_at, (select ends_at from bounds)) as ends_at
      from session_in_bounds as session
      join activity.device as device
        on device.user_id = %(user_id)s
       and device.device_id = session.device_id
      left join ruled
             on ruled.app = session.app
            and ruled.title = session.title
            and ruled.domain = session.domain
      left join reference.category_rule as known_domain
             on known_domain.field = 'domain'
            and known_domain.pattern = session.domain
      left join reference.category_rule as known_app
             on known_app.field = 'app'
            and known_app.pattern = lower(session.app)
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
