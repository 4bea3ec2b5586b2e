-- name: coding
-- Coding time in a range by project, with its languages, and by language, longest first.
--include answer
with slot as (
    select 1 as position,
           %(from)s::timestamptz as starts_at,
           %(to)s::timestamptz as ends_at
),
--include spans
--include runs
--include coding_time
spent as (
    select project,
           language,
           sum(owned_ms)::bigint as total_ms,
           sum(started + continued)::bigint as session_count,
           max(last_at) as last_at,
           sum(lines_added) as lines_added,
           sum(lines_removed) as lines_removed
      from coding_spent
     group by project,
              language
),
total as (
    select coalesce(sum(total_ms), 0)::bigint as coding_ms,
           coalesce(sum(session_count), 0)::bigint as session_count,
           count(distinct project) as project_count,
           count(distinct language) as language_count,
           coalesce(sum(lines_added), 0)::bigint as lines_added,
           coalesce(sum(lines_removed), 0)::bigint as lines_removed
      from spent
),
per_project as (
    select project,
           sum(total_ms)::bigint as total_ms,
           sum(session_count)::bigint as session_count,
           max(last_at) as last_at,
           json_agg(
               json_build_object('language', language, 'total_ms', total_ms, 'percent', percent)
               order by total_ms desc,
                        language collate "C"
           ) as languages
      from (
               select *,
                      svc.percent(
                          total_ms,
                          (sum(total_ms) over (partition by project))::bigint
                      ) as percent
                 from spent
           ) as part
     group by project
),
per_language as (
    select language,
           sum(total_ms)::bigint as total_ms,
           sum(session_count)::bigint as session_count
      from spent
     group by language
),
project_row as (
    select per_project.project,
           per_project.total_ms,
           svc.percent(per_project.total_ms, total.coding_ms) as percent,
           per_project.session_count,
           svc.instant(per_project.last_at) as last_coded_at,
           per_project.languages
      from per_project,
           total
),
language_row as (
    select per_language.language,
           per_language.total_ms,
           svc.percent(per_language.total_ms, total.coding_ms) as percent,
           per_language.session_count
      from per_language,
           total
)
select json_build_object('from', svc.instant(starts_at), 'to', svc.instant(ends_at)) as range,
       json_build_object(
           'projects',
           (
               select coalesce(json_agg(project_row order by total_ms desc, project collate "C"), '[]')
                 from project_row
           ),
           'languages',
           (
               select coalesce(json_agg(language_row order by total_ms desc, language collate "C"), '[]')
                 from language_row
           )
       ) as data,
       (select row_to_json(total) from total) as totals,
--include removed_edges
  from slot
--include end_of_answer
