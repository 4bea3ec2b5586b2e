-- Definitions that statements of several rooms and functions of the database share, as fragments.

-- fragment: owner_order
-- The order of app sessions in which the owner of an instant comes last of all that run at it, as
-- svc.owned_segments expects them. Needs a `session` and the `device` that it was on.
session.started_at,
device.name collate "C" desc,
session.app collate "C" desc,
session.idempotency_key collate "C" desc

-- fragment: coding_owner_order
-- The same order of coding sessions.
session.started_at,
device.name collate "C" desc,
session.project collate "C" desc,
coalesce(session.language, '') collate "C" desc,
coalesce(session.file, '') collate "C" desc,
session.idempotency_key collate "C" desc

-- fragment: unreported_days
-- `unreported`: the days of `possible_day` on which no tracker reported anything: no session begins on them or
-- reaches into them, nor did one that has been removed because of its age. On other days, zero activity was measured; on these it is unknown.
-- needs: possible_day (date, ends_at, starts_at)
-- gives: unreported (date)
unreported as (
    select day.date
      -- Beside row-level security, the planner uses no index for a comparison with a computed value; `offset` makes
      -- it a column.
      from (
               select date,
                      starts_at,
                      ends_at,
                      starts_at - interval '24 hours' as day_before
                 from possible_day
               offset 0
           ) as day
     where day.starts_at < day.ends_at
       -- From the latest session back: the first one read decides about a day with any. Beside `exists`, the order
       -- would be ignored.
       and (
               select true
                 from activity.app_session
                where user_id = %(user_id)s
                  and started_at > day.day_before
                  and started_at < day.ends_at
                  and (started_at >= day.starts_at or ended_at > day.starts_at)
                order by started_at desc
                limit 1
           ) is null
       and (
               select true
                 from activity.coding_session
                where user_id = %(user_id)s
                  and started_at > day.day_before
                  and started_at < day.ends_at
                  and (started_at >= day.starts_at or ended_at > day.starts_at)
                order by started_at desc
                limit 1
           ) is null
       and not exists (
               select
                 from activity.removed_day as removed
                where removed.user_id = %(user_id)s
                  and removed.date between day.date - 2 and day.date + 1
                  and removed.reported && tstzrange(day.starts_at, day.ends_at)
           )
),

-- fragment: first_rule
-- The position of the first of the caller's rules that matches a row of `rule_inputs`.
-- needs: own_rules (titles)
-- needs: ruled (by_app, by_domain, by_title)
least(
    ((select by_app from ruled) -> rule_inputs.app)::integer,
    ((select by_title from ruled) -> rule_inputs.title)::integer,
    ((select titles from own_rules) -> rule_inputs.title_rule::text)::integer,
    ((select by_domain from ruled) -> rule_inputs.domain)::integer
)

-- fragment: category_candidates
-- The categories of a row of `rule_inputs`, of which the first that is not null decides: by the caller's rules, by
-- the tracker, by the service's rules about sites and then applications.
-- needs: known_rule (by_app)
-- needs: known_site (by_domain)
-- needs: own_rules (categories, titles)
-- needs: ruled (by_app, by_domain, by_title)
(select categories from own_rules)[
--include first_rule
],
rule_inputs.category,
(select by_domain from known_site) ->> rule_inputs.domain,
(select by_app from known_rule) ->> lower(rule_inputs.app),
'Uncategorized'

-- fragment: decided_by
-- The kind of the candidate that decided.
-- needs: known_rule (by_app)
-- needs: known_site (by_domain)
-- needs: own_rules (categories, titles)
-- needs: ruled (by_app, by_domain, by_title)
(
    select candidate.decided_by
      from unnest(
               array['rule', 'tracker', 'site', 'app', 'nothing'],
               array[
--include category_candidates
               ]
           ) with ordinality as candidate (decided_by, category, n)
     where candidate.category is not null
     order by candidate.n
     limit 1
)

-- fragment: decided_category
-- `decided_category`: the rows of `rule_inputs`, sessions and labels, each with its category as `known_as`. A label
-- has the first of the title rules that match instead of a title.
--
-- Rules are matched once with each distinct value, not with each session, and sessions look up the result: `ruled`
-- holds maps from values to the position of the first rule that matches, `known_site` one from sites to the category
-- of the service's rule. `own_rules` has the categories of the caller's rules by position, and the positions of title
-- rules.
-- needs: rule (category, category_rule_id, field, match, pattern, position)
-- needs: rule_inputs (app, category, domain, title, title_rule)
-- gives: ruled (by_app, by_domain, by_title)
-- gives: own_rules (categories, titles)
-- gives: known_rule (by_app, by_domain)
-- gives: known_site (by_domain)
-- gives: decided_category (app, domain, known_as)
looked_at as materialized (
    select 'app' as field,
           app as thing
      from rule_inputs
     where exists (select from rule where field = 'app')
     union
    select 'title',
           title
      from rule_inputs
     where title is not null
       and exists (select from rule where field = 'title')
     union
    select 'domain',
           domain
      from rule_inputs
     where domain is not null
       and exists (select from rule where field = 'domain')
),
ruled as (
    select jsonb_object_agg(thing, position) filter (where field = 'app') as by_app,
           jsonb_object_agg(thing, position) filter (where field = 'title') as by_title,
           jsonb_object_agg(thing, position) filter (where field = 'domain') as by_domain
      from (
               select matched.field,
                      matched.thing,
                      min(rule.position) as position
                 from rule,
                      -- `offset` makes the planner match one rule after the other with all values: the server keeps no
                      -- more than 32 regular expressions compiled.
                      lateral (
                          select looked_at.field,
                                 looked_at.thing
                            from looked_at
                           where looked_at.field = rule.field
                             and svc.matches(looked_at.thing, rule.match, rule.pattern)
                          offset 0
                      ) as matched
                group by matched.field,
                         matched.thing
           ) as first_match
),
own_rules as (
    select array_agg(category order by position) as categories,
           jsonb_object_agg(category_rule_id, position) filter (where field = 'title') as titles
      from rule
),
known_rule as (
    select jsonb_object_agg(pattern, category) filter (where field = 'app') as by_app,
           jsonb_object_agg(pattern, category) filter (where field = 'domain') as by_domain
      from reference.category_rule
),
known_site as (
    select jsonb_object_agg(
               domain,
               svc.category_of_site((select by_domain from known_rule), domain)
           ) as by_domain
      from (
               select distinct domain
                 from rule_inputs
                where domain is not null
           ) as site
),
decided_category as (
    select rule_inputs.*,
           coalesce(
--include category_candidates
           ) as known_as
      from rule_inputs
),

-- fragment: refusals_by_reason
-- needs: refusal (count, examples, name, reason)
-- What was refused of an import, by reason, the most frequent first, each with its first three examples.
select json_agg(
           json_build_object(
               'reason', by_reason.reason,
               'count', by_reason.count,
               'examples', by_reason.examples
           )
           order by by_reason.count desc,
                    by_reason.reason collate "C"
       )
  from (
           select refusal.reason,
                  sum(refusal.count) as count,
                  array(
                      select example.text
                        from refusal as other,
                             lateral unnest(other.examples) with ordinality as example (text, place)
                       where other.reason = refusal.reason
                       order by other.name collate "C",
                                example.place
                       limit 3
                  ) as examples
             from refusal
            group by refusal.reason
       ) as by_reason
