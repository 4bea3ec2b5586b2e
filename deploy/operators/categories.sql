-- What operators ask and change of people's category rules and scores, with the rights of the owner of the
-- tables, through the functions that the settings page uses too (sql/functions/categories.sql).

-- name: limit_time
-- What comes after it in the same transaction takes no longer than this, and waits for nobody longer.
select set_config('statement_timeout', '20s', true),
       set_config('lock_timeout', '10s', true)

-- name: rules
-- Somebody's rules, in their order.
select category_rule_id,
       field,
       match,
       pattern,
       category
  from activity.category_rule
 where user_id = %(user_id)s
 order by priority,
          category_rule_id

-- name: scores
-- What categories score, the most productive first.
select category,
       own,
       usual
  from svc.scores_of(%(user_id)s)

-- name: defaults
-- The rules that come with the service.
select field,
       pattern,
       category
  from reference.category_rule
 order by category collate "C",
          field,
          pattern collate "C"

-- name: add_rule
-- Adds a rule; what it is called, or why it was not added.
select problem,
       category_rule_id
  from svc.insert_rule(
           %(user_id)s,
           %(field)s,
           %(match)s,
           %(pattern)s,
           %(category)s,
           %(place)s
       )

-- name: remove_rule
-- Removes a rule and tells its pattern; null: there is none.
select svc.delete_rule(%(user_id)s, %(category_rule_id)s)

-- name: score
-- Scores a category, or, with null, leaves that to the service again; null, or why not.
select svc.set_score(%(user_id)s, %(category)s, %(score)s)

-- name: rule_problem
-- Why there can be no such rule; null: there can.
select svc.rule_problem(%(match)s, %(pattern)s)

-- name: matches
-- What a rule would match of somebody's last 30 days.
select total_ms,
       session_count,
       ruled_ms,
       names
  from svc.recent_matches(%(user_id)s, %(field)s, %(match)s, %(pattern)s)

-- name: category_of
-- Which category something falls into, why, and which rule of theirs says so.
select judged.known_as,
       judged.decided_by,
       rule.field,
       rule.match,
       rule.pattern
  from svc.judge(
           %(user_id)s,
           array[%(app)s::text],
           array[%(title)s::text],
           array[%(domain)s::text],
           array[%(category)s::text]
       ) as judged
  left join activity.category_rule as rule
    on rule.user_id = %(user_id)s
   and rule.category_rule_id = judged.category_rule_id
