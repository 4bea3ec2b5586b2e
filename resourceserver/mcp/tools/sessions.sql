-- name: list_sessions
-- Sessions of one kind that overlap a period, the newest first, each with its own whole duration. Without a
-- filter by category or productivity, categories are decided only for the sessions of the page. Long texts are cut,
-- so that every row fits into an answer.
--include answer
with
--include frame
--include categories
rule_inputs as (
--include app_session_columns
      from activity.app_session as session
     where session.user_id = %(user_id)s
       and %(kind)s::text = 'app'
       and session.started_at > (select starts_at - interval '24 hours' from frame)
       and session.started_at < (select ends_at from frame)
       and (
               session.ended_at > (select starts_at from frame)
               or session.started_at >= (select starts_at from frame)
           )
       and (session.started_at, session.app_session_id)
           < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
       and (
               %(apps)s::text[] = '{}'
               or lower(session.app) = any (array(select lower(name) from unnest(%(apps)s::text[]) as name))
           )
       and (%(search)s::text is null or strpos(lower(session.title), lower(%(search)s::text)) > 0)
       and
--include passes_as_site
     order by session.started_at desc,
              session.app_session_id desc
     limit case
               when %(categories)s::text[] = '{}' and %(productivity)s::text[] = '{}'
                   then %(limit)s::bigint + 1
           end
),
--include decided_category
app_row as (
    select session.started_at as at,
           line.id,
           json_build_object(
               'cursor', svc.cursor(session.started_at, session.app_session_id),
               'started_at', line.started_at,
               'ended_at', line.ended_at,
               'duration_ms', line.duration_ms,
               'app', line.app,
               'title', line.title,
               'url', left(line.url, 500),
               'domain', left(line.domain, 255),
               'category', line.category,
               'productivity', line.productivity,
               'idle', line.idle,
               'device', line.device ->> 'name'
           ) as line
      from decided_category as session
      join activity.device as device
        on device.user_id = %(user_id)s
       and device.device_id = session.device_id,
           lateral (
--include app_session
           ) as line
     where (
--include passes_as_app
           )
     order by session.started_at desc,
              session.app_session_id desc
     limit %(limit)s::bigint + 1
),
coding_row as (
    select session.started_at as at,
           line.id,
           json_build_object(
               'cursor', svc.cursor(session.started_at, session.coding_session_id),
               'started_at', line.started_at,
               'ended_at', line.ended_at,
               'duration_ms', line.duration_ms,
               'project', line.project,
               'language', line.language,
               'branch', line.branch,
               'file', line.file,
               'editor', line.editor,
               'activity', line.activity,
               'lines_added', line.lines_added,
               'lines_removed', line.lines_removed,
               'device', line.device ->> 'name'
           ) as line
      from activity.coding_session as session
      join activity.device as device
        on device.user_id = %(user_id)s
       and device.device_id = session.device_id,
           lateral (
--include coding_session
           ) as line
     where session.user_id = %(user_id)s
       and %(kind)s::text = 'coding'
       and session.started_at > (select starts_at - interval '24 hours' from frame)
       and session.started_at < (select ends_at from frame)
       and (
               session.ended_at > (select starts_at from frame)
               or session.started_at >= (select starts_at from frame)
           )
       and (session.started_at, session.coding_session_id)
           < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
       and (
               %(search)s::text is null
               or strpos(lower(session.file), lower(%(search)s::text)) > 0
               or strpos(lower(session.branch), lower(%(search)s::text)) > 0
           )
       and (
--include passes_as_coding
           )
     order by session.started_at desc,
              session.coding_session_id desc
     limit %(limit)s::bigint + 1
),
numbered_row as (
    select row_number() over (order by at desc, id desc) as n,
           line
      from (
               select at,
                      id,
                      line
                 from app_row
                union all
               select at,
                      id,
                      line
                 from coding_row
           ) as either
)
select %(kind)s::text as kind,
       page.data,
       page.has_more,
       page.has_more as truncated
  from frame
 cross join (
           select coalesce(json_agg(line order by n) filter (where n <= %(limit)s::bigint), '[]') as data,
                  count(*) > %(limit)s::bigint as has_more
             from numbered_row
       ) as page
--include end_of_answer
