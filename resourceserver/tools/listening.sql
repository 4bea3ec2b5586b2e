-- name: get_listening
-- Plays of a period, added up by what they are to be told by. Days and totals are those of the endpoint; what
-- a play counts for is the same for the rest. An album without a name is no row.
with
--include today
--include period
--include gap
daily as (
--query music_daily
),
history as (
--query music_history
),
play as (
    select %(group_by)s::text as kind,
           artist,
           album,
           track,
           coalesce(played_ms, duration_ms, 0) as listened_ms
      from music.listen
     where user_id = %(user_id)s
       and listened_at >= (select starts_at from frame)
       and listened_at < (select ends_at from frame)
       and %(group_by)s::text <> 'day'
),
grouped as (
    select case kind when 'artist' then artist when 'album' then album else track end as name,
           case when kind <> 'artist' then artist end as artist,
           sum(listened_ms)::bigint as listened_ms,
           count(*) as play_count,
           null::text as date
      from play
     where kind <> 'album'
        or album is not null
     group by 1,
              2
     union all
    select day.date,
           null,
           day.listened_ms,
           day.play_count,
           day.date
      from daily
     cross join lateral json_to_recordset(daily.data) as day (
               date        text,
               listened_ms bigint,
               play_count  bigint
           )
     where %(group_by)s::text = 'day'
),
ranked as (
    select grouped.*,
           row_number() over (
               order by date desc nulls last,
                        listened_ms desc,
                        play_count desc,
                        name collate "C",
                        artist collate "C"
           ) as rank
      from grouped
),
total as (
    select (totals ->> 'listened_ms')::bigint as listened_ms,
           (totals ->> 'play_count')::bigint as play_count
      from daily
),
other as (
    select count(*) as rows,
           coalesce(sum(listened_ms), 0)::bigint as listened_ms,
           coalesce(sum(play_count), 0)::bigint as play_count
      from ranked
     where rank > %(top)s::integer
)
select
--include framed
       %(group_by)s::text as group_by,
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
                          order by ranked.date,
                                   ranked.rank
                      ),
                      '[]'
                  )
             from ranked
            cross join total
            where ranked.rank <= %(top)s::integer
       ) as data,
       (select row_to_json(other) from other) as other,
       daily.totals,
       history.data as recent,
       (select rows > 0 from other) as truncated
  from frame
 cross join daily
 cross join history
