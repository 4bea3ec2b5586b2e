-- name: music_history
-- Tracks played in a range, the newest first.
--include answer
with list_row as (
    select listen.listened_at as at,
           listen.listen_id as id,
           row_to_json(line) as line
      from music.listen
     cross join lateral (
--include listen
           ) as line
     where listen.user_id = %(user_id)s
       and listen.listened_at >= %(from)s::timestamptz
       and listen.listened_at < %(to)s::timestamptz
       and (listen.listened_at, listen.listen_id) < (%(cursor_at)s::timestamptz, %(cursor_id)s::uuid)
     order by listen.listened_at desc,
              listen.listen_id desc
     limit %(limit)s::bigint + 1
),
--include page
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       page.*
  from page
--include end_of_answer

-- name: music_daily
-- Listening for every day that overlaps a range, in order. A play belongs to the day on which it began.
--include answer
with
--include touched_days
play as (
    select width_bucket(listened_at, (select array_agg(starts_at order by position) from slot)) as position,
           artist,
           track,
           album,
           coalesce(played_ms, duration_ms, 0) as listened_ms
      from music.listen
     where user_id = %(user_id)s
       and listened_at >= %(from)s::timestamptz
       and listened_at < %(to)s::timestamptz
),
per_track as (
    select position,
           artist,
           track,
           sum(listened_ms) as listened_ms,
           count(*) as play_count
      from play
     group by position,
              artist,
              track
),
per_artist as (
    select position,
           artist,
           sum(listened_ms) as listened_ms,
           sum(play_count)::bigint as play_count,
           count(*) as track_count
      from per_track
     group by position,
              artist
),
listened as (
    select position,
           sum(listened_ms)::bigint as listened_ms,
           sum(play_count)::bigint as play_count,
           sum(track_count)::bigint as track_count,
           count(*) as artist_count,
           (array_agg(artist order by play_count desc, artist collate "C"))[1] as top_artist,
           max(play_count) as top_play_count
      from per_artist
     group by position
),
collected as (
    select position,
           count(*) as album_count
      from (select distinct position, artist, album from play where album is not null) as album
     group by position
),
row as (
    select slot.date,
           coalesce(listened.listened_ms, 0) as listened_ms,
           coalesce(listened.play_count, 0) as play_count,
           coalesce(listened.track_count, 0) as track_count,
           coalesce(listened.artist_count, 0) as artist_count,
           coalesce(collected.album_count, 0) as album_count,
           case
               when listened.position is not null
                   then json_build_object(
                            'artist', listened.top_artist,
                            'play_count', listened.top_play_count
                        )
           end as top_artist
      from slot
      left join listened using (position)
      left join collected using (position)
),
total as (
    select coalesce(sum(listened_ms), 0)::bigint as listened_ms,
           coalesce(sum(play_count), 0)::bigint as play_count,
           (select count(*) from (select distinct artist, track from per_track) as known) as track_count,
           (select count(*) from (select distinct artist from per_artist) as known) as artist_count,
           (select count(*) from slot) as days,
           count(*) as active_days
      from listened
)
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       %(given_tz)s::text as tz,
       (select coalesce(json_agg(row order by date), '[]') from row) as data,
       (select row_to_json(total) from total) as totals
--include end_of_answer

-- name: music_top
-- The artists, albums or tracks with most listening time in a range, at most 100; the totals are those of all. Plays
-- without an album are left out of albums.
--include answer
with wanted as (
    select %(by)s::text = 'artist' as is_artist,
           %(by)s::text = 'album' as is_album
),
play as (
    select case
               when (select is_artist from wanted) then artist
               when (select is_album from wanted) then album
               else track
           end as name,
           case when not (select is_artist from wanted) then artist end as artist,
           coalesce(played_ms, duration_ms, 0) as listened_ms
      from music.listen
     where user_id = %(user_id)s
       and listened_at >= %(from)s::timestamptz
       and listened_at < %(to)s::timestamptz
),
ranked as (
    select name,
           artist,
           sum(listened_ms)::bigint as listened_ms,
           count(*) as play_count,
           row_number() over (
               order by sum(listened_ms) desc,
                        count(*) desc,
                        name collate "C",
                        artist collate "C"
           ) as rank
      from play
     where name is not null
     group by name,
              artist
),
total as (
    select coalesce(sum(listened_ms), 0)::bigint as listened_ms,
           coalesce(sum(play_count), 0)::bigint as play_count,
           count(*) as count,
           count(distinct case %(by)s::text when 'artist' then name else artist end) as artist_count
      from ranked
)
select json_build_object(
           'from', svc.instant(%(from)s::timestamptz),
           'to', svc.instant(%(to)s::timestamptz)
       ) as range,
       %(by)s::text as by,
       (
           select coalesce(
                      json_agg(
                          json_build_object(
                              'name', ranked.name,
                              'artist', ranked.artist,
                              'listened_ms', ranked.listened_ms,
                              'play_count', ranked.play_count,
                              'percent', svc.percent(ranked.listened_ms, total.listened_ms)
                          )
                          order by ranked.rank
                      ),
                      '[]'
                  )
             from ranked
            cross join total
            where ranked.rank <= 100
       ) as data,
       (select row_to_json(total) from total) as totals
--include end_of_answer
