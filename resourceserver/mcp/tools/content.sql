-- fragment: content_rows
-- `row`: the `newest` events, recordings, insights and plays as rows of the answer, each with its text.
-- needs: newest (at, id, kind)
-- needs: event (calendar_event_id, calendar_id, description)
-- needs: play (play_id, title_id)
-- gives: row (at, id, line, text)
row as (
    select newest.at,
           newest.id,
           row_to_json(fields) as line,
           event.description as text
      from newest
      join event on event.calendar_event_id = newest.id
      join content.calendar as calendar
        on calendar.user_id = %(user_id)s
       and calendar.calendar_id = event.calendar_id,
           lateral (
               select newest.kind,
                      svc.instant(event.starts_at) as starts_at,
                      svc.instant(event.ends_at) as ends_at,
                      svc.duration_ms(event.ends_at - event.starts_at) as duration_ms,
                      event.start_date is not null as all_day,
                      event.start_date,
                      event.end_date,
                      left(event.title, 500) as title,
                      left(event.location, 500) as location,
                      left(calendar.name, 500) as calendar,
                      event.status,
                      event.response,
                      left(event.organizer_name, 500) as organizer,
                      event.organizer_is_self,
                      event.attendee_count,
                      event.series_id is not null as recurring
           ) as fields
     where newest.kind = 'calendar'
     union all
    select newest.at,
           newest.id,
           row_to_json(fields),
           recording.transcript
      from newest
      join content.recording as recording
        on recording.user_id = %(user_id)s
       and recording.recording_id = newest.id,
           lateral (
               select newest.kind,
                      svc.instant(recording.recorded_at) as recorded_at,
                      recording.duration_ms,
                      left(recording.title, 500) as title,
                      nullif(recording.transcript_status, 'ready') as transcript_status
           ) as fields
     where newest.kind = 'recordings'
     union all
    select newest.at,
           newest.id,
           row_to_json(fields),
           insight.summary
      from newest
      join content.insight as insight
        on insight.user_id = %(user_id)s
       and insight.insight_id = newest.id,
           lateral (
               select newest.kind,
                      insight.week_start,
                      insight.week_end,
                      left(insight.title, 500) as title,
                      insight.model
           ) as fields
     where newest.kind = 'insights'
     union all
    select newest.at,
           newest.id,
           row_to_json(fields),
           null
      from newest
      join play on play.play_id = newest.id,
           lateral (
               select newest.kind,
                      svc.instant(play.watched_at) as watched_at,
                      play.watch_ms,
                      play.kind as type,
                      left(play.name, 500) as title,
                      play.season,
                      play.episode,
                      array(
                          select genre
                            from content.title_genre as title_genre
                           where title_genre.user_id = %(user_id)s
                             and title_genre.title_id = play.title_id
                           order by genre collate "C"
                      ) as genres
           ) as fields
     where newest.kind = 'watching'
),

-- name: get_content
-- Calendar events, recordings, insights and watched titles of a range, the newest first, and their totals. Only the
-- requested kinds are read, and texts only of the listed rows.
--include answer
with
--include frame
requested as (
    select starts_at,
           ends_at
      from frame
),
slots as (
    select array[starts_at] as starts,
           array[ends_at] as ends
      from frame
     where starts_at < ends_at
),
event as materialized (
    select event.*
      from content.calendar_event as event,
           requested
     where event.user_id = %(user_id)s
       and 'calendar' = any (%(kinds)s::text[])
       and event.starts_at < requested.ends_at
       and (event.starts_at >= requested.starts_at or event.ends_at > requested.starts_at)
       and requested.starts_at < requested.ends_at
       and event.status <> 'cancelled'
       and (
               %(search)s::text is null
               or svc.matches(event.title, 'contains', %(search)s::text)
               or svc.matches(event.description, 'contains', %(search)s::text)
               or svc.matches(event.location, 'contains', %(search)s::text)
               or svc.matches(event.organizer_name, 'contains', %(search)s::text)
           )
),
recording as materialized (
    select recording_id,
           recorded_at,
           duration_ms
      from content.recording
     where user_id = %(user_id)s
       and 'recordings' = any (%(kinds)s::text[])
       and recorded_at >= (select starts_at from requested)
       and recorded_at < (select ends_at from requested)
       and (
               %(search)s::text is null
               or svc.matches(title, 'contains', %(search)s::text)
               or svc.matches(transcript, 'contains', %(search)s::text)
           )
),
insight as materialized (
    select insight.insight_id,
           insight.week_start
      from content.insight,
           frame
     where insight.user_id = %(user_id)s
       and 'insights' = any (%(kinds)s::text[])
       and insight.week_start <= frame.last_day
       and insight.week_end >= frame.first_day
       and frame.starts_at < frame.ends_at
       and (
               %(search)s::text is null
               or svc.matches(insight.title, 'contains', %(search)s::text)
               or svc.matches(insight.summary, 'contains', %(search)s::text)
           )
),
play as materialized (
    select play.play_id,
           play.watched_at,
           play.watch_ms,
           play.season,
           play.episode,
           title.title_id,
           title.kind,
           title.name
      from content.play
      join content.title as title
        on title.user_id = %(user_id)s
       and title.title_id = play.title_id
     where play.user_id = %(user_id)s
       and 'watching' = any (%(kinds)s::text[])
       and play.watched_at >= (select starts_at from requested)
       and play.watched_at < (select ends_at from requested)
       and (
               %(search)s::text is null
               or svc.matches(title.name, 'contains', %(search)s::text)
               or exists (
                   select
                     from content.title_genre as title_genre
                    where title_genre.user_id = %(user_id)s
                      and title_genre.title_id = title.title_id
                      and svc.matches(title_genre.genre, 'contains', %(search)s::text)
               )
           )
),
known as (
    select 'calendar' as kind,
           calendar_event_id as id,
           starts_at as at
      from event
     union all
    select 'recordings',
           recording_id,
           recorded_at
      from recording
     union all
    select 'insights',
           insight.insight_id,
           svc.day_start(insight.week_start, frame.tz)
      from insight,
           frame
     union all
    select 'watching',
           play_id,
           watched_at
      from play
),
listed as (
    select kind,
           id,
           at
      from known
     where (at, id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
),
newest as (
    select kind,
           id,
           at
      from listed
     order by at desc,
              id desc
     limit %(limit)s::integer
),
--include content_rows
-- Of a long text the part around the first match of the search, or its beginning.
line as (
    select row.at,
           row.id,
           row.line,
           json_build_object(
               'text', substr(row.text, place.first, place.most),
               'text_from', case when row.text is not null then place.first end,
               'text_length', length(row.text),
               'is_cut', coalesce(length(row.text) > place.most, false)
           ) as excerpt
      from row,
           lateral (
               select case
                          when %(full)s::boolean or length(row.text) <= 500 then 1
                          else greatest(
                              coalesce(strpos(lower(row.text), lower(%(search)s::text)), 0) - 150,
                              1
                          )
                      end as first,
                      case when %(full)s::boolean then 30000 else 500 end as most
           ) as place
),
--include meetings
attended as (
    with all_meetings as (
        select *
          from meeting
    ),
    meeting as (
        select all_meetings.*
          from all_meetings
          join event using (calendar_event_id)
    ),
--include met
    total as (
        select sum(svc.duration_ms(upper(time) - lower(time))) as meeting_ms
          from met,
               lateral unnest(met.times) as time
    )
    select (select count(*) from meeting) as meeting_count,
           coalesce(total.meeting_ms, 0)::bigint as meeting_ms
      from total
),
part as (
    select 'calendar' as kind,
           1 as position,
           json_build_object(
               'event_count', (select count(*) from event),
               'meeting_count', attended.meeting_count,
               'meeting_ms', attended.meeting_ms
           ) as total
      from attended
     union all
    select 'recordings',
           2,
           json_build_object(
               'recording_count', count(*),
               'duration_ms', coalesce(sum(duration_ms), 0)::bigint
           )
      from recording
     union all
    select 'insights',
           3,
           json_build_object('insight_count', count(*))
      from insight
     union all
    select 'watching',
           4,
           json_build_object(
               'play_count', count(*),
               'title_count', count(distinct title_id),
               'watch_ms', coalesce(sum(watch_ms), 0)::bigint
           )
      from play
)
select (
           select coalesce(
                      json_agg(
                          json_build_object('line', line, 'excerpt', excerpt, 'cursor', svc.cursor(at, id))
                          order by at desc, id desc
                      ),
                      '[]'
                  )
             from line
       ) as data,
       (select count(*) from known) as count,
       (
           select json_object_agg(
                      kind,
                      case when kind = any (%(kinds)s::text[]) then total end
                      order by position
                  )
             from part
       ) as totals,
       (select count(*) from listed) > %(limit)s::integer as has_more,
       (select count(*) from listed) > %(limit)s::integer as truncated
  from frame
--include end_of_answer
