-- name: get_listening
-- Plays of a period, added up by artist, album, track or day, with the endpoint's rule for the time of a play. Albums
-- without a name are left out.
--include answer
with
--include touched_days
play as (
    select artist,
           album,
           track,
           coalesce(played_ms, duration_ms, 0) as listened_ms,
           case
               when %(group_by)s::text = 'day'
                   then width_bucket(
                            listened_at,
                            (select array_agg(starts_at order by position) from slot)
                        )
           end as position
      from music.listen
     where user_id = %(user_id)s
       and listened_at >= %(from)s::timestamptz
       and listened_at < %(to)s::timestamptz
),
grouped as (
    select case %(group_by)s::text
               when 'artist' then artist
               when 'album' then album
               else track
           end as name,
           case when %(group_by)s::text <> 'artist' then artist end as artist,
           sum(listened_ms)::bigint as listened_ms,
           count(*) as play_count,
           null::date as date
      from play
     where %(group_by)s::text <> 'day'
       and (%(group_by)s::text <> 'album' or album is not null)
     group by 1,
              2
     union all
    select slot.date::text,
           null,
           coalesce(sum(play.listened_ms), 0)::bigint,
           count(play.position),
           slot.date
      from slot
      left join play using (position)
     where %(group_by)s::text = 'day'
     group by slot.position,
              slot.date
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
    select coalesce(sum(listened_ms), 0)::bigint as listened_ms
      from play
),
other as (
    select count(*) as rows,
           coalesce(sum(listened_ms), 0)::bigint as listened_ms,
           coalesce(sum(play_count), 0)::bigint as play_count
      from ranked
     where rank > %(skipped)s::integer + %(top)s::integer
)
select %(group_by)s::text as group_by,
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
            where ranked.rank > %(skipped)s::integer
              and ranked.rank <= %(skipped)s::integer + %(top)s::integer
       ) as data,
       (select row_to_json(other) from other) as other,
       (select rows > 0 from other) as truncated
--include end_of_answer
