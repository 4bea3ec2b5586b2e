-- What the page about categories asks. This server sees no activity; each statement calls a function that asks
-- for the sign-in of the person that it is about (sql/functions/categories.sql).

-- name: limit_time
-- What comes after it in the same transaction takes no longer than this, and waits for a job no longer.
select set_config('statement_timeout', '5s', true),
       set_config('lock_timeout', '2s', true)

-- name: rules
-- The rules of whoever is signed in, in their order; no row: they have none, or nobody is.
select category_rule_id,
       field,
       match,
       pattern,
       category
  from svc.category_rules(%(user_id)s, %(session_hash)s)

-- name: scores
-- What categories score for whoever is signed in, the most productive first; no row: nobody is.
select category,
       own,
       usual
  from svc.category_scores(%(user_id)s, %(session_hash)s)

-- name: uncategorized
-- What of the last 30 days nothing puts into a category, the longest first.
select field,
       name,
       has_sites,
       total_ms,
       session_count,
       name_count
  from svc.uncategorized_time(%(user_id)s, %(session_hash)s)

-- name: preview
-- What a rule would match of the last 30 days, or why there can be no such rule; no row: nobody is signed in.
select problem,
       total_ms,
       session_count,
       ruled_ms,
       name_count,
       names
  from svc.preview_category_rule(
           %(user_id)s,
           %(session_hash)s,
           %(field)s,
           %(match)s,
           %(pattern)s
       )

-- name: add
-- Adds a rule after all others; null, or why not.
select svc.add_category_rule(
           %(user_id)s,
           %(session_hash)s,
           %(field)s,
           %(match)s,
           %(pattern)s,
           %(category)s
       ) as problem

-- name: remove
-- Removes a rule and tells its pattern; null: there is none, or nobody is signed in.
select svc.remove_category_rule(%(user_id)s, %(session_hash)s, %(rule)s) is not null as is_done

-- name: move
-- Moves a rule by so many places; false: there is none, or nobody is signed in.
select svc.move_category_rule(%(user_id)s, %(session_hash)s, %(rule)s, %(by)s) as is_done

-- name: score
-- Scores a category, or, with null, leaves that to the service again; null, or why not.
select svc.score_category(%(user_id)s, %(session_hash)s, %(category)s, %(score)s) as problem
