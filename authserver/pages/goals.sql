-- The queries of the page about goals. The role authserver may not read activity; each statement calls a function that
-- checks the sign-in session of the person (sql/functions/goals.sql).

-- name: goals
-- The goals of the signed-in person, the oldest first. No row: there are none, or the session has ended.
select goal_id,
       title,
       metric,
       comparison,
       target,
       period,
       days_of_week,
       categories,
       apps,
       projects,
       languages,
       is_enabled
  from svc.goals(%(user_id)s, %(session_hash)s)

-- name: put
-- Changes a goal, or adds it if there is none with this id. Answers its problem, or null.
select svc.put_goal(
           %(user_id)s,
           %(session_hash)s,
           %(goal_id)s,
           %(title)s,
           %(metric)s,
           %(comparison)s,
           %(target)s,
           %(period)s,
           %(days_of_week)s::smallint[],
           %(categories)s::text[],
           %(apps)s::text[],
           %(projects)s::text[],
           %(languages)s::text[],
           %(is_enabled)s
       ) as problem

-- name: switch
-- Pauses or continues a goal. False: there is no such goal, or the session has ended.
select svc.switch_goal(%(user_id)s, %(session_hash)s, %(goal_id)s, %(is_enabled)s) as is_done

-- name: remove
-- Removes a goal. False: there is no such goal, or the session has ended.
select svc.remove_goal(%(user_id)s, %(session_hash)s, %(goal_id)s) as is_done
