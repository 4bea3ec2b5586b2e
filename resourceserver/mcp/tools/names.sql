-- Which names of a request occur anywhere in the person's data, not only in the requested days, and the known
-- names to suggest in place of others (resourceserver/mcp/names.py).

-- fragment: checked_names
-- Columns of an answer about names: `given`, and up to 1,000 known names for each argument with an unknown one.
-- needs: given (argument, is_known, n, name)
-- needs: known_name (argument, name)
select (
           select coalesce(
                      json_agg(
                          json_build_object('argument', argument, 'name', name, 'is_known', is_known)
                          order by argument,
                                   n
                      ),
                      '[]'
                  )
             from given
       ) as given,
       (
           select coalesce(json_object_agg(argument, names), '{}')
             from (
                      select argument,
                             json_agg(name order by name collate "C") as names
                        from (
                                 select known_name.argument,
                                        known_name.name,
                                        row_number() over (partition by known_name.argument) as n
                                   from (select distinct argument, left(name, 100) as name from known_name) as known_name
                                  where known_name.argument
                                      in (select given.argument from given where not given.is_known)
                             ) as numbered
                       where n <= 1000
                       group by argument
                  ) as listed
       ) as known

-- name: names_of_filter
-- Names of a filter (`Filtered` of resourceserver/mcp/arguments.py). A few names are looked up with indexes and in
-- rollups; sessions are read only for a name that is not found there.
--include answer
with recursive app (name) as (
    (
        select app
          from activity.app_session
         where user_id = %(user_id)s
           and not idle
           and %(apps)s::text[] <> '{}'
         order by app
         limit 1
    )
     union all
    select (
               select session.app
                 from activity.app_session as session
                where session.user_id = %(user_id)s
                  and not session.idle
                  and session.app > app.name
                order by session.app
                limit 1
           )
      from app
     where app.name is not null
),
requested as (
    select list.argument,
           each.name,
           each.n
      from (
               values ('filter.apps', %(apps)s::text[]),
                      ('filter.domains', %(domains)s::text[]),
                      ('filter.categories', %(categories)s::text[]),
                      ('filter.projects', %(projects)s::text[]),
                      ('filter.languages', %(languages)s::text[])
           ) as list (argument, names)
     cross join lateral unnest(list.names) with ordinality as each (name, n)
),
quick_name (argument, name) as (
    select 'filter.apps',
           name
      from app
     where name is not null
     union all
    -- With the sites that it is a part of, since a filter may name these.
    select 'filter.domains',
           whole.name
      from activity.label
     cross join lateral (
               select array_to_string(parts[n:], '.') as name
                 from string_to_array(label.domain, '.') as parts
                cross join lateral generate_series(1, greatest(cardinality(parts) - 1, 1)) as n
           ) as whole
     where user_id = %(user_id)s
       and domain is not null
     union all
    select 'filter.categories',
           category
      from reference.category
     union all
    select 'filter.categories',
           category
      from activity.category_score
     where user_id = %(user_id)s
     union all
    select 'filter.categories',
           category
      from activity.category_rule
     where user_id = %(user_id)s
     union all
    select 'filter.categories',
           category
      from activity.label
     where user_id = %(user_id)s
       and category is not null
     union all
    select 'filter.projects',
           project
      from activity.coding_time
     where user_id = %(user_id)s
       and grain = 4
     union all
    select 'filter.languages',
           language
      from activity.coding_time
     where user_id = %(user_id)s
       and grain = 4
     union all
    values ('filter.languages', 'unknown')
),
missing as materialized (
    select distinct argument
      from requested
     where not exists (
               select
                 from quick_name
                where quick_name.argument = requested.argument
                  and lower(quick_name.name) = lower(requested.name)
           )
),
known_name (argument, name) as materialized (
    select argument,
           name
      from quick_name
     where argument in (select argument from requested)
     union
    select 'filter.apps',
           app
      from activity.app_session
     where user_id = %(user_id)s
       and idle
       and (select 'filter.apps' in (select argument from missing))
     union
    select 'filter.apps',
           app
      from activity.label
     where user_id = %(user_id)s
       and (select 'filter.apps' in (select argument from missing))
     union
    select 'filter.domains',
           whole.name
      from (
               select distinct domain
                 from activity.app_session
                where user_id = %(user_id)s
                  and domain is not null
                  and (select 'filter.domains' in (select argument from missing))
                union
               select domain
                 from activity.label
                where user_id = %(user_id)s
                  and domain is not null
                  and (select 'filter.domains' in (select argument from missing))
           ) as session
     cross join lateral (
               select array_to_string(parts[n:], '.') as name
                 from string_to_array(session.domain, '.') as parts
                cross join lateral generate_series(1, greatest(cardinality(parts) - 1, 1)) as n
           ) as whole
     union
    select 'filter.categories',
           category
      from activity.app_session
     where user_id = %(user_id)s
       and category is not null
       and (select 'filter.categories' in (select argument from missing))
     union
    select 'filter.projects',
           project
      from activity.coding_session
     where user_id = %(user_id)s
       and (select 'filter.projects' in (select argument from missing))
     union
    select 'filter.languages',
           language
      from activity.coding_session
     where user_id = %(user_id)s
       and language is not null
       and (select 'filter.languages' in (select argument from missing))
),
given as (
    select argument,
           name,
           n,
           exists (
               select
                 from known_name
                where known_name.argument = requested.argument
                  and lower(known_name.name) = lower(requested.name)
           ) as is_known
      from requested
)
--include checked_names
--include end_of_answer

-- name: names_of_metrics
-- Metrics by their arguments: those that devices measure, `health:` and a name, are known once there is any
-- measurement. Heart rate is always known, as in get_health.
--include answer
with requested as (
    select argument,
           name,
           n
      from unnest(%(arguments)s::text[], %(names)s::text[]) with ordinality as each (argument, name, n)
),
measured_name as (
    select 'health:' || metric_type as name
      from health.metric
     where user_id = %(user_id)s
     union
    values ('health:heart_rate')
),
known_name (argument, name) as (
    select requested.argument,
           measured_name.name
      from requested
     cross join measured_name
),
given as (
    select argument,
           name,
           n,
           not starts_with(name, 'health:') or name in (select name from measured_name) as is_known
      from requested
)
--include checked_names
--include end_of_answer

-- name: names_of_repositories
-- A repository, given by its whole name or by the last part of it.
--include answer
with known_name as materialized (
    select distinct 'repository' as argument,
           repository as name
      from code.event
     where user_id = %(user_id)s
),
given as (
    select 'repository' as argument,
           %(repository)s::text as name,
           1 as n,
           exists (
               select
                 from known_name
                where lower(%(repository)s::text) in (lower(name), lower(split_part(name, '/', -1)))
           ) as is_known
)
--include checked_names
--include end_of_answer

-- name: names_of_places
-- Text to search for in places, and in the notes of stays.
--include answer
with place as materialized (
    select place_id,
           name,
           category,
           address,
           city,
           country_code
      from location.place
     where user_id = %(user_id)s
),
known_name (argument, name) as (
    select 'search',
           name
      from place
     union all
    select 'search',
           city
      from place
     where city is not null
),
given as (
    select 'search' as argument,
           %(search)s::text as name,
           1 as n,
           exists (
               select
                 from place
                where svc.matches(name, 'contains', %(search)s::text)
                   or svc.matches(category, 'contains', %(search)s::text)
                   or svc.matches(address, 'contains', %(search)s::text)
                   or svc.matches(city, 'contains', %(search)s::text)
                   or country_code = upper(%(search)s::text)
           )
               or exists (
                   select
                     from location.event
                    where user_id = %(user_id)s
                      and svc.matches(note, 'contains', %(search)s::text)
               ) as is_known
)
--include checked_names
--include end_of_answer
