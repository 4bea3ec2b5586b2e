-- name: insights
-- Insights about weeks, the newest week first.
--include answer
with list_row as (
    select insight.week_start::timestamp at time zone 'UTC' as at,
           insight.insight_id as id,
           row_to_json(line) as line
      from content.insight,
           lateral (
--include insight
           ) as line
     where insight.user_id = %(user_id)s
       and (insight.week_start, insight.insight_id)
           < ((%(cursor_at)s::timestamptz at time zone 'UTC')::date, %(cursor_id)s::uuid)
     order by insight.week_start desc,
              insight.insight_id desc
     limit %(limit)s::bigint + 1
),
--include page
select page.*
  from page
--include end_of_answer

-- name: recordings
-- Recordings with their transcripts, the newest first.
--include answer
with list_row as (
    select recording.recorded_at as at,
           recording.recording_id as id,
           row_to_json(line) as line
      from content.recording,
           lateral (
--include recording
           ) as line
     where recording.user_id = %(user_id)s
       and (recording.recorded_at, recording.recording_id)
           < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
     order by recording.recorded_at desc,
              recording.recording_id desc
     limit %(limit)s::bigint + 1
),
--include page
select page.*
  from page
--include end_of_answer

-- name: watching_genres
-- All watched films and shows by genre. A title with several genres counts whole in each of them, and once in the
-- totals.
--include answer
with watched as (
    select played.title_id,
           title.kind,
           played.watch_ms,
           played.play_count,
           played.last_at
      from (
               select title_id,
                      sum(watch_ms) as watch_ms,
                      count(*) as play_count,
                      max(watched_at) as last_at
                 from content.play
                where user_id = %(user_id)s
                group by title_id
           ) as played
      join content.title as title
        on title.user_id = %(user_id)s
       and title.title_id = played.title_id
),
total as (
    select coalesce(sum(watch_ms), 0)::bigint as watch_ms,
           coalesce(sum(play_count), 0)::bigint as play_count,
           coalesce(sum(play_count) filter (where kind = 'movie'), 0)::bigint as movie_count,
           coalesce(sum(play_count) filter (where kind = 'show'), 0)::bigint as episode_count,
           count(*) as title_count
      from watched
),
per_genre as (
    select coalesce(title_genre.genre, 'unknown') as genre,
           sum(watched.watch_ms)::bigint as watch_ms,
           sum(watched.play_count)::bigint as play_count,
           coalesce(sum(watched.play_count) filter (where watched.kind = 'movie'), 0)::bigint as movie_count,
           coalesce(sum(watched.play_count) filter (where watched.kind = 'show'), 0)::bigint as episode_count,
           count(distinct watched.title_id) as title_count,
           max(watched.last_at) as last_at
      from watched
      left join content.title_genre as title_genre
        on title_genre.user_id = %(user_id)s
       and title_genre.title_id = watched.title_id
     group by 1
),
row as (
    select per_genre.genre,
           per_genre.watch_ms,
           svc.percent(per_genre.watch_ms, total.watch_ms) as percent,
           per_genre.play_count,
           per_genre.movie_count,
           per_genre.episode_count,
           per_genre.title_count,
           svc.instant(per_genre.last_at) as last_watched_at
      from per_genre,
           total
)
select (
           select coalesce(json_agg(row order by watch_ms desc, genre collate "C"), '[]')
             from row
       ) as data,
       (select row_to_json(total) from total) as totals
--include end_of_answer

-- name: calendar_events
-- Calendar events that overlap a range, the newest first.
--
-- An event may last for weeks, so one that began before the range is searched in two ways: less than a day before, by
-- its start, and among the few that last longer than a day, by their end.
--include answer
with event as (
    (
        select *
          from content.calendar_event
         where user_id = %(user_id)s
           and starts_at > %(from)s::timestamptz - interval '24 hours'
           and starts_at < %(to)s::timestamptz
           and (starts_at >= %(from)s::timestamptz or ends_at > %(from)s::timestamptz)
           and %(from)s::timestamptz < %(to)s::timestamptz
           and (%(include_cancelled)s::boolean or status <> 'cancelled')
           and (starts_at, calendar_event_id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
         order by starts_at desc,
                  calendar_event_id desc
         limit %(limit)s::bigint + 1
    )
     union all
    select *
      from content.calendar_event
     where user_id = %(user_id)s
       and ends_at - starts_at > interval '24 hours'
       and ends_at > %(from)s::timestamptz
       and starts_at <= %(from)s::timestamptz - interval '24 hours'
       and %(from)s::timestamptz < %(to)s::timestamptz
       and (%(include_cancelled)s::boolean or status <> 'cancelled')
       and (starts_at, calendar_event_id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
),
list_row as (
    select event.starts_at as at,
           event.calendar_event_id as id,
           row_to_json(line) as line
      from (
               select *
                 from event
                order by starts_at desc,
                         calendar_event_id desc
                limit %(limit)s::bigint + 1
           ) as event
      join content.calendar as calendar
        on calendar.user_id = %(user_id)s
       and calendar.calendar_id = event.calendar_id,
           lateral (
--include calendar_event
           ) as line
),
--include page
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       page.*
  from page
--include end_of_answer
