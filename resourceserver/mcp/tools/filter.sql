-- What a filter lets through, in the questions that take one (`Filtered` of resourceserver/mcp/arguments.py).
-- A member that is not given is an empty list. Case counts for nothing in names.

-- fragment: passing
-- `passing`: the pairs of an application and a category among `decided_category` that a filter lets through. Needs the
-- fragments `categories` and `decided_category`.
-- needs: decided_category (app, known_as)
-- needs: score (category, score)
-- gives: passing (app, category)
passing as materialized (
    select distinct session.app,
                    session.known_as as category
      from decided_category as session
     where (
--include passes_as_app
           )
),

-- fragment: passes_as_app
-- A condition on a `session` with its decided category. Needs the fragment `categories`.
-- needs: score (category, score)
(
    %(apps)s::text[] = '{}'
    or lower(session.app) = any (array(select lower(name) from unnest(%(apps)s::text[]) as name))
)
and (
    %(categories)s::text[] = '{}'
    or lower(session.known_as)
        = any (array(select lower(name) from unnest(%(categories)s::text[]) as name))
)
and (
    %(productivity)s::text[] = '{}'
    or coalesce(
           (select jsonb_object_agg(category, svc.productivity(score)) from score) ->> session.known_as,
           svc.productivity(0)
       ) = any (%(productivity)s::text[])
)

-- fragment: passes_as_coding
-- A condition on the project and the language of a `session`; a language that is not known is `unknown`.
(
    %(projects)s::text[] = '{}'
    or lower(session.project) = any (array(select lower(name) from unnest(%(projects)s::text[]) as name))
)
and (
    %(languages)s::text[] = '{}'
    or lower(coalesce(session.language, 'unknown'))
        = any (array(select lower(name) from unnest(%(languages)s::text[]) as name))
)
