-- What players show of their person's own listens: those of the last 14 days, with the names of ListenBrainz.

-- name: listens
-- Listens between two instants, neither included: the newest, or if only the earlier instant is given, those that
-- follow it. The newest of them comes first.
--include answer
with visible as materialized (
    select listen_id,
           listened_at,
           floor(extract(epoch from listened_at))::bigint as listened_ts,
           track,
           artist,
           album,
           duration_ms,
           recording_mbid,
           isrc,
           spotify_uri
      from music.listen
     where user_id = %(user_id)s
       and listened_at > now() - interval '14 days'
),
chosen as (
    select *
      from visible
     where (%(max_ts)s::bigint is null or listened_ts < %(max_ts)s::bigint)
       and (%(min_ts)s::bigint is null or listened_ts > %(min_ts)s::bigint)
     order by case when %(max_ts)s::bigint is null and %(min_ts)s::bigint is not null then listened_at end,
              listened_at desc,
              listen_id desc
     limit %(count)s
)
select json_build_object(
           'count', count(*),
           'user_id', %(name)s::text,
           'latest_listen_ts', coalesce((select max(listened_ts) from visible), 0),
           'oldest_listen_ts', coalesce((select min(listened_ts) from visible), 0),
           'listens', coalesce(
               json_agg(
                   json_build_object(
                       'listened_at', listened_ts,
                       'user_name', %(name)s::text,
                       'recording_msid', listen_id,
                       'track_metadata', json_build_object(
                           'track_name', track,
                           'artist_name', artist,
                           'release_name', album,
                           'additional_info', json_strip_nulls(
                               json_build_object(
                                   'duration_ms', duration_ms,
                                   'recording_mbid', recording_mbid,
                                   'isrc', isrc,
                                   'spotify_id', replace(spotify_uri, 'spotify:track:', 'https://open.spotify.com/track/')
                               )
                           )
                       )
                   )
                   order by listened_at desc,
                            listen_id desc
               ),
               '[]'
           )
       ) as payload
  from chosen
--include end_of_answer

-- name: listen_count
-- The number of listens.
--include answer
select json_build_object('count', count(*)) as payload
  from music.listen
 where user_id = %(user_id)s
   and listened_at > now() - interval '14 days'
--include end_of_answer
