-- name: codehost_activity
-- Events of code hosts, the newest first.
--include answer
with list_row as (
    select event.occurred_at as at,
           event.event_id as id,
           row_to_json(line) as line
      from code.event
     cross join lateral (
--include code_event
           ) as line
     where event.user_id = %(user_id)s
       and event.occurred_at >= %(from)s::timestamptz
       and event.occurred_at < %(to)s::timestamptz
       and (event.occurred_at, event.event_id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
     order by event.occurred_at desc,
              event.event_id desc
     limit %(limit)s::bigint + 1
),
--include page
select page.*
  from page
--include end_of_answer

-- fragment: counts
-- `per_repository`: the events of `event_in_range` counted by type and repository. `row`: the same counts for all
-- repositories together; it always has all three types.
-- `total`: their sums.
-- needs: event_in_range (additions, changed_files, deletions, provider, repository, type)
-- gives: row (additions, changed_files, count, deletions, repository_count, type)
-- gives: total (additions, count, deletions)
-- gives: per_repository (additions, changed_files, count, deletions, provider, repository, type)
per_repository as (
    select type,
           provider,
           repository,
           count(*) as count,
           sum(additions) as additions,
           sum(deletions) as deletions,
           sum(changed_files) as changed_files
      from event_in_range
     group by type,
              provider,
              repository
),
counted as (
    select type,
           sum(count)::bigint as count,
           sum(additions)::bigint as additions,
           sum(deletions)::bigint as deletions,
           sum(changed_files)::bigint as changed_files,
           count(*) as repository_count
      from per_repository
     group by type
),
row as (
    select known.type,
           coalesce(counted.count, 0) as count,
           coalesce(counted.additions, 0) as additions,
           coalesce(counted.deletions, 0) as deletions,
           coalesce(counted.changed_files, 0) as changed_files,
           coalesce(counted.repository_count, 0) as repository_count
      from (values ('commit'), ('pull_request'), ('review')) as known (type)
      left join counted using (type)
),
-- A pull request repeats the lines of its commits.
total as (
    select sum(count)::bigint as count,
           sum(additions) filter (where type = 'commit')::bigint as additions,
           sum(deletions) filter (where type = 'commit')::bigint as deletions
      from row
),

-- name: codehost_counts
-- How many events of each type code hosts had in a range.
--include answer
with event_in_range as (
    select type,
           provider,
           repository,
           additions,
           deletions,
           changed_files
      from code.event
     where user_id = %(user_id)s
       and occurred_at >= %(from)s::timestamptz
       and occurred_at < %(to)s::timestamptz
),
--include counts
requested as (
    select %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       (select json_agg(row order by type) from row) as data,
       (select row_to_json(total) from total) as totals
  from requested
--include end_of_answer

-- name: codehost_repositories
-- The repositories with events in a range, those with most events first, at most 100; the totals are those of all.
--include answer
with event_in_range as (
    select type,
           provider,
           repository,
           additions,
           deletions,
           changed_files
      from code.event
     where user_id = %(user_id)s
       and occurred_at >= %(from)s::timestamptz
       and occurred_at < %(to)s::timestamptz
),
--include counts
per_name as (
    select repository as name,
           provider,
           coalesce(sum(count) filter (where type = 'commit'), 0)::bigint as commits,
           coalesce(sum(count) filter (where type = 'pull_request'), 0)::bigint as pull_requests,
           coalesce(sum(count) filter (where type = 'review'), 0)::bigint as reviews,
           sum(count)::bigint as count,
           coalesce(sum(additions) filter (where type = 'commit'), 0)::bigint as additions,
           coalesce(sum(deletions) filter (where type = 'commit'), 0)::bigint as deletions
      from per_repository
     group by repository,
              provider
)
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       (
           select coalesce(
                      json_agg(top order by count desc, name collate "C", provider collate "C"),
                      '[]'
                  )
             from (
                      select *
                        from per_name
                       order by count desc,
                                name collate "C",
                                provider collate "C"
                       limit 100
                  ) as top
       ) as data,
       (
           select json_build_object(
                      'count', total.count,
                      'additions', total.additions,
                      'deletions', total.deletions,
                      'repository_count', (select count(*) from per_name)
                  )
             from total
       ) as totals
--include end_of_answer
