-- Writing what people listened to.

-- name: add_listens
-- Writes plays; the number of rows is that of the new ones. The first wins: a play that is over does not change.
insert into music.listen (
    user_id,
    listen_id,
    source,
    provider_key,
    import_id,
    listened_at,
    track,
    artist,
    artists,
    album,
    played_ms,
    duration_ms,
    is_skipped,
    spotify_uri,
    isrc,
    recording_mbid
)
select %(user_id)s,
       sent.id::uuid,
       %(source)s,
       sent.key,
       %(import_id)s,
       timestamptz 'epoch' + sent.listened_at::bigint * interval '1 millisecond',
       sent.track,
       sent.artist,
       sent.artists::text[],
       sent.album,
       sent.played_ms::bigint,
       sent.duration_ms::bigint,
       sent.is_skipped::boolean,
       sent.spotify_uri,
       sent.isrc,
       sent.recording_mbid::uuid
  from rows from (
           json_array_elements_text(%(key)s::json),
           json_array_elements_text(%(id)s::json),
           json_array_elements_text(%(listened_at)s::json),
           json_array_elements_text(%(track)s::json),
           json_array_elements_text(%(artist)s::json),
           json_array_elements_text(%(artists)s::json),
           json_array_elements_text(%(album)s::json),
           json_array_elements_text(%(played_ms)s::json),
           json_array_elements_text(%(duration_ms)s::json),
           json_array_elements_text(%(is_skipped)s::json),
           json_array_elements_text(%(spotify_uri)s::json),
           json_array_elements_text(%(isrc)s::json),
           json_array_elements_text(%(recording_mbid)s::json)
       ) as sent (
           key,
           id,
           listened_at,
           track,
           artist,
           artists,
           album,
           played_ms,
           duration_ms,
           is_skipped,
           spotify_uri,
           isrc,
           recording_mbid
       )
 order by sent.key collate "C"
    on conflict (user_id, source, provider_key) do nothing
