-- The queries of the page about categories. The role authserver may not read activity; each statement calls a
-- function that checks the sign-in session of the person (sql/functions/categories.sql).

-- name: limit_time
-- Limits the duration and the lock waits of the next statement in the same transaction.
select svc.limit_page()

-- name: rules
-- The rules of the signed-in person, in their order. No row: there are none, or the session has ended.
select category_rule_id,
       field,
       match,
       pattern,
       category,
       category_rule_id in (select svc.switched_off_rules(%(user_id)s, %(session_hash)s)) as is_off
  from svc.category_rules(%(user_id)s, %(session_hash)s)

-- name: scores
-- The scores of categories for the signed-in person, highest first. No row: the session has ended.
select category,
       own,
       usual
  from svc.category_scores(%(user_id)s, %(session_hash)s)

-- name: uncategorized
-- The sites and applications of the last 30 days without a category, longest first.
select field,
       name,
       has_sites,
       total_ms,
       session_count,
       name_count
  from svc.uncategorized_time(%(user_id)s, %(session_hash)s)

-- name: preview
-- What a rule would match in the last 30 days, or its problem. No row: the session has ended.
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
-- Adds a rule after all others. Answers its problem, or null.
select svc.add_category_rule(
           %(user_id)s,
           %(session_hash)s,
           %(field)s,
           %(match)s,
           %(pattern)s,
           %(category)s
       ) as problem

-- name: replace
-- Puts a rule into the place of another. Answers its problem, or null.
select svc.replace_category_rule(
           %(user_id)s,
           %(session_hash)s,
           %(replaces)s::uuid,
           %(field)s,
           %(match)s,
           %(pattern)s,
           %(category)s
       ) as problem

-- name: remove
-- Removes a rule. False: there is no such rule, or the session has ended.
select svc.remove_category_rule(%(user_id)s, %(session_hash)s, %(rule)s) is not null as is_done

-- name: move
-- Moves a rule by `by` positions. False: there is no such rule, or the session has ended.
select svc.move_category_rule(%(user_id)s, %(session_hash)s, %(rule)s, %(by)s) as is_done

-- name: score
-- Sets the score of a category, or removes it if the score is null. Answers the problem, or null.
select svc.score_category(%(user_id)s, %(session_hash)s, %(category)s, %(score)s) as problem
