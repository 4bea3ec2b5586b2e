-- name: app_sessions
-- App sessions that overlap a range, the newest first, idle ones too, each with its own whole duration.
with
--include categories
found as (
    select session.started_at as at,
           session.app_session_id as id,
           row_to_json(line) as line
      from activity.app_session as session
      join activity.device as device
        on device.user_id = %(user_id)s
       and device.device_id = session.device_id
     cross join lateral (
               select coalesce(
                          (
                              select rule.category
                                from rule
                               where svc.matches(
                                         case rule.field
                                             when 'app' then session.app
                                             when 'title' then session.title
                                             when 'domain' then session.domain
                                         end,
                                         rule.match,
                                         rule.pattern
                                     )
                               order by rule.position
                               limit 1
                          ),
                          session.category,
                          (
                              select category
                                from reference.category_rule
                               where field = 'domain'
                                 and pattern = session.domain
                          ),
                          (
                              select category
                                from reference.category_rule
                               where field = 'app'
                                 and pattern = lower(session.app)
                          ),
                          'Uncategorized'
                      ) as category
           ) as judged
     cross join lateral (
               select session.app_session_id as id,
                      svc.instant(session.started_at) as started_at,
                      svc.instant(session.ended_at) as ended_at,
                      svc.duration_ms(session.ended_at - session.started_at) as duration_ms,
                      session.app,
                      session.title,
                      session.url,
                      session.domain,
                      judged.category,
                      svc.productivity(
                          coalesce((select score from score where score.category = judged.category), 0)
                      ) as productivity,
                      session.idle,
                      json_build_object(
                          'id', device.device_id,
                          'name', device.name,
                          'platform', device.platform
                      ) as device,
                      session.source
           ) as line
     where session.user_id = %(user_id)s
       and session.started_at > %(from)s::timestamptz - interval '24 hours'
       and session.started_at < %(to)s::timestamptz
       and (
               session.ended_at > %(from)s::timestamptz
               or session.started_at >= %(from)s::timestamptz
           )
       and %(from)s::timestamptz < %(to)s::timestamptz
       and (session.started_at, session.app_session_id)
           < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
       and (%(app)s::text is null or session.app = %(app)s::text)
       and (%(category)s::text is null or judged.category = %(category)s::text)
     order by session.started_at desc,
              session.app_session_id desc
     limit %(limit)s::bigint + 1
),
--include page
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       page.*
  from page
