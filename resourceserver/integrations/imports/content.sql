-- Writing what people watched, recorded and planned.

-- name: add_titles
-- Writes films and shows. The first wins: they have nothing but their name.
insert into content.title (
    user_id,
    title_id,
    source,
    provider_key,
    import_id,
    kind,
    name
)
select %(user_id)s,
       sent.id::uuid,
       %(source)s,
       sent.key,
       %(import_id)s,
       sent.kind,
       sent.name
  from rows from (
           json_array_elements_text(%(key)s::json),
           json_array_elements_text(%(id)s::json),
           json_array_elements_text(%(kind)s::json),
           json_array_elements_text(%(name)s::json)
       ) as sent (
           key,
           id,
           kind,
           name
       )
 order by sent.key collate "C"
    on conflict (user_id, source, provider_key) do nothing

-- name: titles
-- The films and shows of these keys.
select title_id,
       provider_key
  from content.title
 where user_id = %(user_id)s
   and source = %(source)s
   and provider_key = any (%(keys)s::text[])

-- name: add_genres
-- Adds the genres of films and shows, as far as they are new.
insert into content.title_genre (user_id, title_id, genre)
select %(user_id)s,
       sent.title_id::uuid,
       sent.genre
  from rows from (
           json_array_elements_text(%(title_id)s::json),
           json_array_elements_text(%(genre)s::json)
       ) as sent (
           title_id,
           genre
       )
 order by sent.title_id::uuid,
          sent.genre collate "C"
    on conflict do nothing

-- name: add_plays
-- Writes plays whose time is known; the number of rows is that of the new ones. The first wins: what was watched does
-- not change.
insert into content.play (
    user_id,
    play_id,
    source,
    provider_key,
    import_id,
    title_id,
    season,
    episode,
    watched_at,
    watch_ms
)
select %(user_id)s,
       sent.id::uuid,
       %(source)s,
       sent.key,
       %(import_id)s,
       (%(title_ids)s::uuid[])[sent.title::integer],
       sent.season::smallint,
       sent.episode::smallint,
       timestamptz 'epoch' + sent.watched_at::bigint * interval '1 millisecond',
       sent.watch_ms::bigint
  from rows from (
           json_array_elements_text(%(key)s::json),
           json_array_elements_text(%(id)s::json),
           json_array_elements_text(%(title)s::json),
           json_array_elements_text(%(season)s::json),
           json_array_elements_text(%(episode)s::json),
           json_array_elements_text(%(watched_at)s::json),
           json_array_elements_text(%(watch_ms)s::json)
       ) as sent (
           key,
           id,
           title,
           season,
           episode,
           watched_at,
           watch_ms
       )
 order by sent.key collate "C"
    on conflict (user_id, source, provider_key) do nothing

-- name: add_plays_of_days
-- Writes plays of which only the day is known, but not beside a play of the title whose time lies on that day; the
-- number of rows is that of the new ones.
insert into content.play (
    user_id,
    play_id,
    source,
    provider_key,
    import_id,
    title_id,
    season,
    episode,
    watched_at,
    watch_ms
)
select %(user_id)s,
       sent.id::uuid,
       %(source)s,
       sent.key,
       %(import_id)s,
       (%(title_ids)s::uuid[])[sent.title::integer],
       sent.season::smallint,
       sent.episode::smallint,
       noon.watched_at,
       sent.watch_ms::bigint
  from rows from (
           json_array_elements_text(%(key)s::json),
           json_array_elements_text(%(id)s::json),
           json_array_elements_text(%(title)s::json),
           json_array_elements_text(%(season)s::json),
           json_array_elements_text(%(episode)s::json),
           json_array_elements_text(%(watched_at)s::json),
           json_array_elements_text(%(watch_ms)s::json)
       ) as sent (
           key,
           id,
           title,
           season,
           episode,
           watched_at,
           watch_ms
       )
 cross join lateral (
           select timestamptz 'epoch' + sent.watched_at::bigint * interval '1 millisecond' as watched_at
       ) as noon
 where not exists (
           select
             from content.play as timed
            where timed.user_id = %(user_id)s
              and timed.source = %(source)s
              and timed.title_id = (%(title_ids)s::uuid[])[sent.title::integer]
              and timed.watched_at >= noon.watched_at - interval '12 hours'
              and timed.watched_at < noon.watched_at + interval '12 hours'
              and timed.provider_key !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}:'
       )
 order by sent.key collate "C"
    on conflict (user_id, source, provider_key) do nothing

-- name: give_times
-- Gives plays of which only the day is known the times of plays of their titles on these days, one each, and with them
-- the keys; the number of rows is that of the changed ones.
with timed as (
    select distinct on (sent.key)
           (%(title_ids)s::uuid[])[sent.title::integer] as title_id,
           sent.key,
           sent.season::smallint as season,
           sent.episode::smallint as episode,
           timestamptz 'epoch' + sent.watched_at::bigint * interval '1 millisecond' as watched_at,
           sent.watch_ms::bigint as watch_ms
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(title)s::json),
               json_array_elements_text(%(season)s::json),
               json_array_elements_text(%(episode)s::json),
               json_array_elements_text(%(watched_at)s::json),
               json_array_elements_text(%(watch_ms)s::json)
           ) as sent (
               key,
               title,
               season,
               episode,
               watched_at,
               watch_ms
           )
     where not exists (
               select
                 from content.play as known
                where known.user_id = %(user_id)s
                  and known.source = %(source)s
                  and known.provider_key = sent.key
           )
       and sent.key !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}:'
     order by sent.key
),
numbered as (
    select *,
           row_number() over (partition by title_id, (watched_at at time zone %(zone)s)::date order by key) as number
      from timed
),
of_day as (
    select play_id,
           title_id,
           left(provider_key, 10)::date as day,
           row_number() over (partition by title_id, left(provider_key, 10) order by provider_key) as number
      from content.play
     where user_id = %(user_id)s
       and source = %(source)s
       and provider_key ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}:'
       and title_id in (select title_id from timed)
)
update content.play
   set provider_key = numbered.key,
       season = numbered.season,
       episode = numbered.episode,
       watched_at = numbered.watched_at,
       watch_ms = numbered.watch_ms
  from numbered
  join of_day
    on of_day.title_id = numbered.title_id
   and of_day.day = (numbered.watched_at at time zone %(zone)s)::date
   and of_day.number = numbered.number
 where play.user_id = %(user_id)s
   and play.play_id = of_day.play_id

-- name: put_calendars
-- Writes calendars. The newer wins: people rename them.
with written as (
    insert into content.calendar (
        user_id,
        calendar_id,
        provider,
        provider_key,
        import_id,
        name,
        timezone
    )
    select %(user_id)s,
           sent.id::uuid,
           %(source)s,
           sent.key,
           %(import_id)s,
           sent.name,
           sent.timezone
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(id)s::json),
               json_array_elements_text(%(name)s::json),
               json_array_elements_text(%(timezone)s::json)
           ) as sent (
               key,
               id,
               name,
               timezone
           )
     order by sent.key collate "C"
        on conflict (user_id, provider, provider_key) do update
       set name = excluded.name,
           timezone = excluded.timezone
     where (
               calendar.name,
               calendar.timezone
           ) is distinct from (
               excluded.name,
               excluded.timezone
           )
    returning provider_key,
              xmax = 0 as is_new
)
select provider_key,
       is_new
  from written

-- name: calendars
-- The calendars of these keys.
select calendar_id,
       provider_key
  from content.calendar
 where user_id = %(user_id)s
   and provider = %(source)s
   and provider_key = any (%(keys)s::text[])

-- name: put_calendar_events
-- Writes events. The newer wins, unless the event itself says that it is older: events are moved and cancelled. What a
-- source has now wins in any case: an instance that is no longer moved is again as old as its series.
with written as (
    insert into content.calendar_event (
        user_id,
        calendar_event_id,
        source,
        provider_key,
        import_id,
        calendar_id,
        title,
        description,
        location,
        starts_at,
        ends_at,
        start_date,
        end_date,
        timezone,
        status,
        response,
        organizer_name,
        organizer_is_self,
        attendee_count,
        series_id,
        conference_url,
        updated_at
    )
    select %(user_id)s,
           sent.id::uuid,
           %(source)s,
           sent.key,
           %(import_id)s,
           (%(calendar_ids)s::uuid[])[sent.calendar::integer],
           sent.title,
           sent.description,
           sent.location,
           timestamptz 'epoch' + sent.starts_at::bigint * interval '1 millisecond',
           timestamptz 'epoch' + sent.ends_at::bigint * interval '1 millisecond',
           sent.start_date::date,
           sent.end_date::date,
           sent.timezone,
           sent.status,
           sent.response,
           sent.organizer_name,
           sent.organizer_is_self::boolean,
           sent.attendee_count::integer,
           sent.series_id,
           sent.conference_url,
           timestamptz 'epoch' + sent.updated_at::bigint * interval '1 millisecond'
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(id)s::json),
               json_array_elements_text(%(calendar)s::json),
               json_array_elements_text(%(title)s::json),
               json_array_elements_text(%(description)s::json),
               json_array_elements_text(%(location)s::json),
               json_array_elements_text(%(starts_at)s::json),
               json_array_elements_text(%(ends_at)s::json),
               json_array_elements_text(%(start_date)s::json),
               json_array_elements_text(%(end_date)s::json),
               json_array_elements_text(%(timezone)s::json),
               json_array_elements_text(%(status)s::json),
               json_array_elements_text(%(response)s::json),
               json_array_elements_text(%(organizer_name)s::json),
               json_array_elements_text(%(organizer_is_self)s::json),
               json_array_elements_text(%(attendee_count)s::json),
               json_array_elements_text(%(series_id)s::json),
               json_array_elements_text(%(conference_url)s::json),
               json_array_elements_text(%(updated_at)s::json)
           ) as sent (
               key,
               id,
               calendar,
               title,
               description,
               location,
               starts_at,
               ends_at,
               start_date,
               end_date,
               timezone,
               status,
               response,
               organizer_name,
               organizer_is_self,
               attendee_count,
               series_id,
               conference_url,
               updated_at
           )
     order by sent.key collate "C"
        on conflict (user_id, source, provider_key) do update
       set calendar_id = excluded.calendar_id,
           title = excluded.title,
           description = excluded.description,
           location = excluded.location,
           starts_at = excluded.starts_at,
           ends_at = excluded.ends_at,
           start_date = excluded.start_date,
           end_date = excluded.end_date,
           timezone = excluded.timezone,
           status = excluded.status,
           response = excluded.response,
           organizer_name = excluded.organizer_name,
           organizer_is_self = excluded.organizer_is_self,
           attendee_count = excluded.attendee_count,
           series_id = excluded.series_id,
           conference_url = excluded.conference_url,
           updated_at = excluded.updated_at
     where (
               calendar_event.calendar_id,
               calendar_event.title,
               calendar_event.description,
               calendar_event.location,
               calendar_event.starts_at,
               calendar_event.ends_at,
               calendar_event.start_date,
               calendar_event.end_date,
               calendar_event.timezone,
               calendar_event.status,
               calendar_event.response,
               calendar_event.organizer_name,
               calendar_event.organizer_is_self,
               calendar_event.attendee_count,
               calendar_event.series_id,
               calendar_event.conference_url,
               calendar_event.updated_at
           ) is distinct from (
               excluded.calendar_id,
               excluded.title,
               excluded.description,
               excluded.location,
               excluded.starts_at,
               excluded.ends_at,
               excluded.start_date,
               excluded.end_date,
               excluded.timezone,
               excluded.status,
               excluded.response,
               excluded.organizer_name,
               excluded.organizer_is_self,
               excluded.attendee_count,
               excluded.series_id,
               excluded.conference_url,
               excluded.updated_at
           )
       and (%(is_current)s or coalesce(excluded.updated_at >= calendar_event.updated_at, true))
    returning provider_key,
              xmax = 0 as is_new
)
select provider_key,
       is_new
  from written

-- name: put_recordings
-- Writes recordings. The newer wins: transcripts are corrected.
with written as (
    insert into content.recording (
        user_id,
        recording_id,
        source,
        provider_key,
        import_id,
        recorded_at,
        duration_ms,
        title,
        language,
        transcript_status,
        transcript,
        transcript_segments
    )
    select %(user_id)s,
           sent.id::uuid,
           %(source)s,
           sent.key,
           %(import_id)s,
           timestamptz 'epoch' + sent.recorded_at::bigint * interval '1 millisecond',
           sent.duration_ms::bigint,
           sent.title,
           sent.language,
           sent.transcript_status,
           sent.transcript,
           sent.transcript_segments::json
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(id)s::json),
               json_array_elements_text(%(recorded_at)s::json),
               json_array_elements_text(%(duration_ms)s::json),
               json_array_elements_text(%(title)s::json),
               json_array_elements_text(%(language)s::json),
               json_array_elements_text(%(transcript_status)s::json),
               json_array_elements_text(%(transcript)s::json),
               json_array_elements_text(%(transcript_segments)s::json)
           ) as sent (
               key,
               id,
               recorded_at,
               duration_ms,
               title,
               language,
               transcript_status,
               transcript,
               transcript_segments
           )
     order by sent.key collate "C"
        on conflict (user_id, source, provider_key) do update
       set recorded_at = excluded.recorded_at,
           duration_ms = excluded.duration_ms,
           title = excluded.title,
           language = excluded.language,
           transcript_status = excluded.transcript_status,
           transcript = excluded.transcript,
           transcript_segments = excluded.transcript_segments
     where (
               recording.recorded_at,
               recording.duration_ms,
               recording.title,
               recording.language,
               recording.transcript_status,
               recording.transcript,
               recording.transcript_segments::text
           ) is distinct from (
               excluded.recorded_at,
               excluded.duration_ms,
               excluded.title,
               excluded.language,
               excluded.transcript_status,
               excluded.transcript,
               excluded.transcript_segments::text
           )
    returning provider_key,
              xmax = 0 as is_new
)
select provider_key,
       is_new
  from written
