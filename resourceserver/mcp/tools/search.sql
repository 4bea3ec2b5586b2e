-- Records that have all words of a question, in any order, and single records. Each domain is a statement of its own,
-- because each needs its own scope. Words are patterns of `like` in which every character stands for itself.

-- fragment: patterns
-- The words as patterns, in lower case; computed once for all rows.
array(select lower(pattern) from unnest(%(patterns)s::text[]) as pattern)

-- name: search_frame
-- The person's zone, in which days of results are counted.
--include answer
with
--include today
framed as (
    select tz,
           date as today
      from today
)
select framed.*,
--include frame_scopes
  from framed
--include end_of_answer

-- name: search_sessions
-- The newest session of each title, and of coding the newest of each file. No index has their words, so they are
-- read from the newest on, up to a limit, until there are enough.
--include answer
with
matching as (
    select app_session_id,
           started_at,
           ended_at,
           app,
           title
      from (
               select app_session_id,
                      started_at,
                      ended_at,
                      app,
                      title,
                      domain
                 from activity.app_session
                where user_id = %(user_id)s
                order by started_at desc,
                         app_session_id desc
                limit %(most_searched)s::bigint
           ) as recent
     where title is not null
       and lower(concat_ws(' ', title, app, domain)) like all (
--include patterns
           )
     order by started_at desc,
              app_session_id desc
     limit 500
),
coding as (
    select coding_session_id,
           started_at,
           ended_at,
           project,
           file,
           branch
      from (
               select coding_session_id,
                      started_at,
                      ended_at,
                      project,
                      file,
                      branch,
                      language
                 from activity.coding_session
                where user_id = %(user_id)s
                order by started_at desc,
                         coding_session_id desc
                limit %(most_searched)s::bigint
           ) as recent
     where coalesce(file, branch) is not null
       and lower(concat_ws(' ', file, branch, project, language)) like all (
--include patterns
           )
     order by started_at desc,
              coding_session_id desc
     limit 500
),
newest as (
    select distinct on (app, title)
           'session' as kind,
           app_session_id as id,
           started_at,
           ended_at,
           title
      from matching
     order by app,
              title,
              started_at desc,
              app_session_id desc
),
newest_coding as (
    select distinct on (project, coalesce(file, branch))
           'coding' as kind,
           coding_session_id as id,
           started_at,
           ended_at,
           coalesce(file, branch) as title
      from coding
     order by project,
              coalesce(file, branch),
              started_at desc,
              coding_session_id desc
)
select coalesce(json_agg(line order by line.started_at desc, line.id desc), '[]') as lines
  from (
           select kind,
                  id,
                  svc.instant(started_at) as started_at,
                  svc.instant(ended_at) as ended_at,
                  (started_at at time zone %(tz)s)::date as day,
                  left(title, 200) as title
             from (
                      select * from newest
                       union all
                      select * from newest_coding
                  ) as either
            order by either.started_at desc,
                     either.id desc
            limit %(limit)s::bigint
       ) as line
--include end_of_answer

-- name: search_code
-- The newest event of each title in a repository.
--include answer
with
newest as (
    select distinct on (provider, repository, type, title)
           event_id,
           occurred_at,
           type,
           title
      from code.event
     where user_id = %(user_id)s
       and title is not null
       and lower(concat_ws(' ', title, repository, ref, '#' || number)) like all (
--include patterns
           )
     order by provider,
              repository,
              type,
              title,
              occurred_at desc,
              event_id desc
)
select coalesce(json_agg(line order by line.started_at desc, line.id desc), '[]') as lines
  from (
           select type as kind,
                  event_id as id,
                  svc.instant(occurred_at) as started_at,
                  (occurred_at at time zone %(tz)s)::date as day,
                  left(title, 200) as title
             from newest
            order by occurred_at desc,
                     event_id desc
            limit %(limit)s::bigint
       ) as line
--include end_of_answer

-- name: search_content
-- Events of calendars, recordings and weekly insights. Of events with one title, that which is nearest to now.
--include answer
with
event as (
    select distinct on (title)
           calendar_event_id,
           starts_at,
           start_date,
           title
      from content.calendar_event
     where user_id = %(user_id)s
       and title is not null
       and status <> 'cancelled'
       and lower(concat_ws(' ', title, description, location, organizer_name)) like all (
--include patterns
           )
     order by title,
              abs(extract(epoch from starts_at - now())),
              calendar_event_id
),
recording as (
    select recording_id,
           recorded_at,
           title
      from content.recording
     where user_id = %(user_id)s
       and lower(concat_ws(' ', title, transcript)) like all (
--include patterns
           )
),
insight as (
    select insight_id,
           week_start,
           title
      from content.insight
     where user_id = %(user_id)s
       and lower(concat_ws(' ', title, summary)) like all (
--include patterns
           )
)
select coalesce(json_agg(line order by line.at desc, line.id desc), '[]') as lines
  from (
           select kind,
                  id,
                  at,
                  svc.instant(at) as started_at,
                  coalesce(day, (at at time zone %(tz)s)::date) as day,
                  left(title, 200) as title
             from (
                      select 'calendar' as kind,
                             calendar_event_id as id,
                             starts_at as at,
                             start_date as day,
                             title
                        from event
                       union all
                      select 'recording',
                             recording_id,
                             recorded_at,
                             null,
                             title
                        from recording
                       union all
                      select 'insight',
                             insight_id,
                             week_start::timestamp at time zone 'UTC',
                             week_start,
                             title
                        from insight
                  ) as each
            order by at desc,
                     id desc
            limit %(limit)s::bigint
       ) as line
--include end_of_answer

-- name: search_places
-- Places at which the person was, with the day of the last stay.
--include answer
with
stay as (
    select place_id,
           max(started_at) as last_at
      from location.event
     where user_id = %(user_id)s
       and status <> 'declined'
     group by place_id
)
select coalesce(json_agg(line order by line.at desc, line.id desc), '[]') as lines
  from (
           select 'place' as kind,
                  place.place_id as id,
                  stay.last_at as at,
                  svc.instant(stay.last_at) as started_at,
                  (stay.last_at at time zone %(tz)s)::date as day,
                  left(place.name, 200) as title
             from location.place as place
             join stay
               on stay.place_id = place.place_id
            where place.user_id = %(user_id)s
              and lower(
                      concat_ws(
                          ' ', place.name, place.category, place.address, place.city, place.country_code
                      )
                  ) like all (
--include patterns
                  )
            order by stay.last_at desc,
                     place.place_id desc
            limit %(limit)s::bigint
       ) as line
--include end_of_answer

-- fragment: own
-- `own`: the person's zone.
-- gives: own (tz)
own as (
    select timezone as tz
      from identity.user
     where user_id = %(user_id)s
),

-- name: fetch_session
-- One session of an application.
--include answer
with
--include own
line as (
    select svc.instant(session.started_at) as started_at,
           svc.instant(session.ended_at) as ended_at,
           (session.started_at at time zone (select tz from own))::date as day,
           session.title,
           session.title as text,
           session.app as application,
           session.url as address,
           session.domain as site,
           session.idle,
           device.name as device
      from activity.app_session as session
      join activity.device as device
        on device.user_id = %(user_id)s
       and device.device_id = session.device_id
     where session.user_id = %(user_id)s
       and session.started_at = %(at)s::timestamptz
       and session.app_session_id = %(id)s::uuid
)
select (select row_to_json(line) from line) as record,
       (select tz from own) as tz
--include end_of_answer

-- name: fetch_coding
-- One session of coding.
--include answer
with
--include own
line as (
    select svc.instant(session.started_at) as started_at,
           svc.instant(session.ended_at) as ended_at,
           (session.started_at at time zone (select tz from own))::date as day,
           coalesce(session.file, session.branch, session.project) as title,
           coalesce(session.file, session.branch, session.project) as text,
           session.project,
           session.file,
           session.branch,
           session.language,
           session.editor,
           session.lines_added,
           session.lines_removed,
           device.name as device
      from activity.coding_session as session
      join activity.device as device
        on device.user_id = %(user_id)s
       and device.device_id = session.device_id
     where session.user_id = %(user_id)s
       and session.started_at = %(at)s::timestamptz
       and session.coding_session_id = %(id)s::uuid
)
select (select row_to_json(line) from line) as record,
       (select tz from own) as tz
--include end_of_answer

-- name: fetch_code
-- One event of a code host.
--include answer
with
--include own
line as (
    select svc.instant(occurred_at) as started_at,
           (occurred_at at time zone (select tz from own))::date as day,
           coalesce(title, repository) as title,
           title as text,
           action,
           repository,
           provider,
           ref,
           sha,
           number,
           url as address,
           additions as lines_added,
           deletions as lines_removed,
           changed_files
      from code.event
     where user_id = %(user_id)s
       and event_id = %(id)s::uuid
)
select (select row_to_json(line) from line) as record,
       (select tz from own) as tz
--include end_of_answer

-- name: fetch_calendar
-- One event of a calendar.
--include answer
with
--include own
line as (
    select svc.instant(event.starts_at) as started_at,
           svc.instant(event.ends_at) as ended_at,
           coalesce(
               event.start_date, (event.starts_at at time zone (select tz from own))::date
           ) as day,
           event.end_date - 1 as last_day,
           event.title,
           event.description as text,
           event.location,
           calendar.name as calendar,
           event.status,
           event.response,
           event.organizer_name as organizer,
           event.attendee_count as attendees
      from content.calendar_event as event
      join content.calendar as calendar
        on calendar.user_id = %(user_id)s
       and calendar.calendar_id = event.calendar_id
     where event.user_id = %(user_id)s
       and event.calendar_event_id = %(id)s::uuid
)
select (select row_to_json(line) from line) as record,
       (select tz from own) as tz
--include end_of_answer

-- name: fetch_recording
-- One recording with its transcript.
--include answer
with
--include own
line as (
    select svc.instant(recorded_at) as started_at,
           svc.instant(recorded_at + duration_ms * interval '1 millisecond') as ended_at,
           (recorded_at at time zone (select tz from own))::date as day,
           title,
           transcript as text,
           transcript_status as transcript,
           language,
           source
      from content.recording
     where user_id = %(user_id)s
       and recording_id = %(id)s::uuid
)
select (select row_to_json(line) from line) as record,
       (select tz from own) as tz
--include end_of_answer

-- name: fetch_insight
-- The text about one week.
--include answer
with
--include own
line as (
    select svc.instant(week_start::timestamp at time zone 'UTC') as started_at,
           week_start as day,
           week_end as last_day,
           title,
           summary as text,
           model as written_by
      from content.insight
     where user_id = %(user_id)s
       and insight_id = %(id)s::uuid
)
select (select row_to_json(line) from line) as record,
       (select tz from own) as tz
--include end_of_answer

-- name: fetch_place
-- One place, and the newest stays there with their notes.
--include answer
with
--include own
stay as (
    select event_id,
           started_at,
           ended_at,
           note
      from location.event
     where user_id = %(user_id)s
       and place_id = %(id)s::uuid
       and status <> 'declined'
),
newest as (
    select string_agg(note, e'\n' order by started_at desc, event_id desc) as notes,
           string_agg(
               to_char(started_at at time zone (select tz from own), 'Dy YYYY-MM-DD HH24:MI')
               || coalesce(to_char(ended_at at time zone (select tz from own), '" to "Dy YYYY-MM-DD HH24:MI'), ''),
               ', '
               order by started_at desc,
                        event_id desc
           ) as times
      from (
               select *
                 from stay
                order by started_at desc,
                         event_id desc
                limit %(limit)s::bigint
           ) as stay
),
total as (
    select count(*) as count,
           max(started_at) as last_at
      from stay
),
line as (
    select svc.instant(total.last_at) as started_at,
           (total.last_at at time zone (select tz from own))::date as day,
           place.name as title,
           newest.notes as text,
           place.category,
           place.address as postal_address,
           place.city,
           place.country_code as country,
           svc.degrees(place.latitude) as latitude,
           svc.degrees(place.longitude) as longitude,
           total.count as stays,
           newest.times as last_stays
      from location.place as place
     cross join newest
     cross join total
     where place.user_id = %(user_id)s
       and place.place_id = %(id)s::uuid
)
select (select row_to_json(line) from line) as record,
       (select tz from own) as tz
--include end_of_answer
