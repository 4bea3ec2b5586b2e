-- Statements of `svc category`, with the rights of the owner of the tables. They call the functions that the
-- settings page also uses (sql/functions/categories.sql).

-- name: limit_time
-- Limits each later statement of the transaction, and how long it waits for a lock.
select set_config('statement_timeout', '20s', true),
       set_config('lock_timeout', '10s', true)

-- name: rules
-- A person's rules, in their order.
select category_rule_id,
       field,
       match,
       pattern,
       category,
       switched_off_at
  from activity.category_rule
 where user_id = %(user_id)s
 order by priority,
          category_rule_id

-- name: scores
-- The scores of categories, the most productive first.
select category,
       own,
       usual
  from svc.scores_of(%(user_id)s)

-- name: defaults
-- The service's own rules.
select field,
       pattern,
       category
  from reference.category_rule
 order by category collate "C",
          field,
          pattern collate "C"

-- name: add_rule
-- Adds a rule; answers its id, or why it was not added.
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
-- Removes a rule and answers its pattern; null: there is no such rule.
select svc.delete_rule(%(user_id)s, %(category_rule_id)s)

-- name: score
-- Sets the score of a category; null restores the service's own. Answers null, or why it was refused.
select svc.set_score(%(user_id)s, %(category)s, %(score)s)

-- name: rule_problem
-- Why a rule is invalid; null: it is valid.
select svc.rule_problem(%(match)s, %(pattern)s)

-- name: matches
-- What a rule would match in a person's last 30 days.
select total_ms,
       session_count,
       ruled_ms,
       names
  from svc.recent_matches(%(user_id)s, %(field)s, %(match)s, %(pattern)s)

-- name: category_of
-- The category of a session, the reason, and the person's rule that decided, if one did.
select decided.known_as,
       decided.decided_by,
       rule.field,
       rule.match,
       rule.pattern
  from svc.judge(
           %(user_id)s,
           array[%(app)s::text],
           array[%(title)s::text],
           array[%(domain)s::text],
           array[%(category)s::text]
       ) as decided
  left join activity.category_rule as rule
    on rule.user_id = %(user_id)s
   and rule.category_rule_id = decided.category_rule_id
