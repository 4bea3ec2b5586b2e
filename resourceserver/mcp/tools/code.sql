-- name: get_code_activity
-- The events of code hosts in a period that match the filters: counts of each type as the endpoint has them, of each
-- action and repository, and the newest events. A repository is given by its whole name or by the last part of it.
-- Texts of code hosts have no maximum length, so they are cut.
--include answer
with
--include frame
event_in_range as (
    select event_id,
           occurred_at,
           type,
           action,
           provider,
           repository,
           number,
           additions,
           deletions,
           changed_files
      from code.event
     where user_id = %(user_id)s
       and occurred_at >= (select starts_at from frame)
       and occurred_at < (select ends_at from frame)
       and (%(type)s::text is null or type = %(type)s::text)
       and (
               %(repository)s::text is null
               or lower(repository) = lower(%(repository)s::text)
               or lower(split_part(repository, '/', -1)) = lower(%(repository)s::text)
           )
),
--include counts
action_count as (
    select type,
           action,
           count(*) as count
      from event_in_range
     group by type,
              action
),
-- A pull request that is reopened, or that has two events, counts once.
pull_request as (
    select action,
           count(distinct (provider, repository, coalesce(number::text, event_id::text))) as count
      from event_in_range
     where type = 'pull_request'
     group by action
),
repository as (
    select left(repository, 255) as name,
           left(provider, 64) as provider,
           coalesce(sum(count) filter (where type = 'commit'), 0)::bigint as commits,
           coalesce(sum(count) filter (where type = 'pull_request'), 0)::bigint as pull_requests,
           coalesce(sum(count) filter (where type = 'review'), 0)::bigint as reviews,
           coalesce(sum(additions) filter (where type = 'commit'), 0)::bigint as additions,
           coalesce(sum(deletions) filter (where type = 'commit'), 0)::bigint as deletions
      from per_repository
     group by per_repository.repository,
              per_repository.provider
),
listed_event as (
    select occurred_at,
           event_id
      from event_in_range
     where (occurred_at, event_id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
),
recent as (
    select newest.occurred_at as at,
           line.id,
           json_build_object(
               'cursor', svc.cursor(newest.occurred_at, newest.event_id),
               'type', line.type,
               'action', line.action,
               'occurred_at', line.occurred_at,
               'repository', left(line.repository ->> 'name', 255),
               'title', left(line.title, 500),
               'url', left(line.url, 500),
               'ref', left(line.ref, 255),
               'number', line.number,
               'additions', line.additions,
               'deletions', line.deletions,
               'changed_files', line.changed_files
           ) as line
      from (
               select event_id,
                      occurred_at
                 from listed_event
                order by occurred_at desc,
                         event_id desc
                limit %(limit)s::bigint
           ) as newest
      join code.event as event
        on event.user_id = %(user_id)s
       and event.event_id = newest.event_id,
           lateral (
--include code_event
           ) as line
)
select (select row_to_json(total) from total) as totals,
       (select json_agg(row order by type) from row) as types,
       coalesce((select count from pull_request where action = 'opened'), 0) as pull_requests_opened,
       coalesce((select count from pull_request where action = 'merged'), 0) as pull_requests_merged,
       (
           select coalesce(json_agg(action_count order by count desc, type, action), '[]')
             from action_count
       ) as actions,
       (
           select coalesce(
                      json_agg(
                          repository
                          order by commits + pull_requests + reviews desc,
                                   name collate "C",
                                   provider collate "C"
                      ),
                      '[]'
                  )
             from repository
       ) as repositories,
       (select coalesce(json_agg(line order by at desc, id desc), '[]') from recent) as recent,
       (select count(*) from listed_event) > %(limit)s::bigint as has_more,
       (select count(*) from listed_event) > %(limit)s::bigint as truncated
  from frame
--include end_of_answer
