-- Conditions of a filter, in statements with one (`Filtered` of resourceserver/mcp/arguments.py). A member without a
-- value is an empty list. Names are compared without regard to case.

-- fragment: passing
-- `passing`: the pairs of an application and a category in `decided_category` that match a filter. Needs the
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

-- fragment: passes_as_site
-- A condition on the site of a `session`, which may be a part of a given one: `news.example.org` of `example.org`.
(
    %(domains)s::text[] = '{}'
    or exists (
           select
             from unnest(%(domains)s::text[]) as name
            where right('.' || lower(session.domain), length(name) + 1) = '.' || lower(name)
       )
)

-- fragment: passes_as_coding
-- A condition on the project and the language of a `session`; an unknown language is called `unknown`.
(
    %(projects)s::text[] = '{}'
    or lower(session.project) = any (array(select lower(name) from unnest(%(projects)s::text[]) as name))
)
and (
    %(languages)s::text[] = '{}'
    or lower(coalesce(session.language, 'unknown'))
        = any (array(select lower(name) from unnest(%(languages)s::text[]) as name))
)
