-- Beats of editors, and the coding sessions that are derived from them. May run again at any time.
--
-- The importer may not read or delete sessions. These functions do it for the import whose session is open, and reach
-- its beats and sessions alone. Their plans are kept by the connection: they search by keys, whatever the values.

-- The import whose session is open, for its person as svc.import_user_id() returns it; raises insufficient_privilege
-- without a person.
create or replace function svc.open_import_id(p_user_id uuid)
returns uuid
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    if p_user_id is null then
        raise exception using errcode = 'insufficient_privilege', message = 'no session of an import is open';
    end if;
    return current_setting('svc.import_id')::uuid;
end
$$;

-- The earlier ones, which knew no projects.
drop function if exists svc.keep_beats(text, bigint[], uuid[], json, bigint[], bigint[]);
drop function if exists svc.derived_sessions(bigint, bigint);
drop function if exists svc.sessions_of_import(uuid, uuid, bigint[], bigint[]);

-- The sessions of an import that overlap any of the windows, which are given as two arrays of their edges: an array of
-- arrays. A session comes once for each window. With `p_projects`, only sessions of these come, and those that may have
-- the key of one: its parts are separated by colons, and a project or a language can have one.
create or replace function svc.sessions_of_import(
    p_user_id uuid,
    p_import_id uuid,
    p_from_ms bigint[],
    p_to_ms bigint[],
    p_projects text[]
)
returns json
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
    return (
        select coalesce(
                   json_agg(
                       json_build_array(
                           session.idempotency_key,
                           device.name,
                           session.project,
                           session.language,
                           round(extract(epoch from session.started_at) * 1000)::bigint,
                           round(extract(epoch from session.ended_at) * 1000)::bigint,
                           session.file,
                           session.branch,
                           session.editor,
                           session.utc_offset,
                           session.is_write,
                           session.lines_added,
                           session.lines_removed,
                           session.metadata
                       )
                       order by session.started_at,
                                session.idempotency_key
                   ),
                   '[]'
               )
          from unnest(p_from_ms, p_to_ms) as near (from_ms, to_ms)
          join activity.coding_session as session
            on session.user_id = p_user_id
           and session.import_id = p_import_id
           and session.started_at > timestamptz 'epoch' + (near.from_ms - 86400001) * interval '1 millisecond'
           and session.started_at <= timestamptz 'epoch' + near.to_ms * interval '1 millisecond'
           and session.ended_at >= timestamptz 'epoch' + near.from_ms * interval '1 millisecond'
           and (
               p_projects is null
               or session.project = any (p_projects)
               or session.project like '%:%'
               or session.language like '%:%'
           )
          join activity.device
            on device.user_id = p_user_id
           and device.device_id = session.device_id
    );
end
$$;

-- Keeps the beats of a batch that are not kept yet: times and keys, and the beats as a JSON array. Returns the indexes of
-- those that it has added, the sessions of the open import near the windows and of the projects (above), and where
-- sessions are removed because of their age (retention.sql), the instant before which no beats are taken. Null: the device
-- does not exist, and nothing is kept. Until the transaction ends, no other changes beats and sessions of the import.
create or replace function svc.keep_beats(
    p_device   text,
    p_at_ms    bigint[],
    p_keys     uuid[],
    p_contents json,
    p_from_ms  bigint[],
    p_to_ms    bigint[],
    p_projects text[] default null
)
returns json
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    owner_id constant uuid := svc.import_user_id();
    open_id  constant uuid := svc.open_import_id(owner_id);
    added    json;
begin
    perform from profile.connection
      where connection.user_id = owner_id
        and connection.import_id = open_id
        for no key update;
    perform from activity.device
      where device.user_id = owner_id
        and device.name = p_device;
    if not found then
        return null;
    end if;
    with sent as materialized (
        select timestamptz 'epoch' + sent.at_ms * interval '1 millisecond' as beat_at,
               sent.key as beat_key,
               sent.content,
               sent.position
          from rows from (
                   unnest(p_at_ms),
                   unnest(p_keys),
                   json_array_elements(p_contents)
               ) with ordinality as sent (at_ms, key, content, position)
    ),
    written as (
        insert into activity.beat (user_id, import_id, beat_at, beat_key, content)
        select owner_id,
               open_id,
               sent.beat_at,
               sent.beat_key,
               sent.content
          from sent
            on conflict do nothing
        returning beat_at,
                  beat_key
    )
    select coalesce(json_agg(sent.position - 1), '[]')
      into added
      from sent
      join written using (beat_at, beat_key);
    return json_build_object(
        'added',
        added,
        'sessions',
        svc.sessions_of_import(owner_id, open_id, p_from_ms, p_to_ms, p_projects),
        'closed_ms',
        (
            select round(extract(epoch from raw_limit.closed_before::timestamp at time zone 'UTC') * 1000)::bigint
              from activity.raw_limit
             where raw_limit.user_id = owner_id
        )
    );
end
$$;

-- The beats of the open import between two times, both included, at most `p_most` of them and in order: an array of
-- their times and contents.
create or replace function svc.kept_beats(p_from_ms bigint, p_to_ms bigint, p_most integer)
returns json
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    select coalesce(
               json_agg(
                   json_build_array(
                       round(extract(epoch from kept.beat_at) * 1000)::bigint,
                       kept.content
                   )
                   order by kept.beat_at
               ),
               '[]'
           )
      from (
               select beat.beat_at,
                      beat.content
                 from activity.beat
                where beat.user_id = svc.import_user_id()
                  and beat.import_id = svc.open_import_id(svc.import_user_id())
                  and beat.beat_at between timestamptz 'epoch' + p_from_ms * interval '1 millisecond'
                                       and timestamptz 'epoch' + p_to_ms * interval '1 millisecond'
                order by beat.beat_at
                limit p_most
           ) as kept
$$;

-- The sessions of the open import that overlap a window, of projects (above).
create or replace function svc.derived_sessions(p_from_ms bigint, p_to_ms bigint, p_projects text[] default null)
returns json
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
    select svc.sessions_of_import(
               svc.import_user_id(),
               svc.open_import_id(svc.import_user_id()),
               array[p_from_ms],
               array[p_to_ms],
               p_projects
           )
$$;

-- Removes sessions of the open import, given by their keys, and writes others, each over the one with its key if the
-- import has one. Marks the days of all of them, before and after, and counts what each device has sent. Returns
-- how many sessions are new. The devices exist already; a session whose device was deleted a moment ago is an error.
-- The marks are set after the sessions are written, because rollups rely on that order. Rows are written in the order of
-- their keys, as by ingest and imports: two writers may wait for each other, but never deadlock. Where
-- sessions are removed because of their age (retention.sql), none is removed here, and a new one begins after that time.
create or replace function svc.replace_derived_sessions(p_removed text[], p_sessions json)
returns integer
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    owner_id constant uuid := svc.import_user_id();
    open_id  constant uuid := svc.open_import_id(owner_id);
    touched  date[];
    changes  json;
    added    integer;
    closed_at constant timestamptz := coalesce(
        (
            select raw_limit.closed_before::timestamp at time zone 'UTC'
              from activity.raw_limit
             where raw_limit.user_id = owner_id
        ),
        '-infinity'
    );
begin
    with sent as materialized (
        select sent.*,
               greatest(
                   timestamptz 'epoch' + sent.started_ms * interval '1 millisecond',
                   closed_at
               ) as started_at,
               timestamptz 'epoch' + sent.ended_ms * interval '1 millisecond' as ended_at
          from json_to_recordset(p_sessions) as sent (
                   key           text,
                   device        text,
                   project       text,
                   language      text,
                   started_ms    bigint,
                   ended_ms      bigint,
                   file          text,
                   branch        text,
                   editor        text,
                   activity      text,
                   utc_offset    text,
                   is_write      boolean,
                   lines_added   integer,
                   lines_removed integer,
                   metadata      json
               )
         where timestamptz 'epoch' + sent.ended_ms * interval '1 millisecond' >= closed_at
    ),
    removed as (
        delete from activity.coding_session as session
         where session.user_id = owner_id
           and session.idempotency_key = any (p_removed)
           and session.import_id = open_id
           and session.started_at >= closed_at
        returning session.device_id,
                  session.started_at,
                  session.ended_at
    ),
    earlier as (
        select session.started_at,
               session.ended_at
          from activity.coding_session as session
         where session.user_id = owner_id
           and session.idempotency_key in (select sent.key from sent)
           and session.import_id = open_id
    ),
    written as (
        insert into activity.coding_session as session (
            user_id,
            idempotency_key,
            device_id,
            started_at,
            ended_at,
            project,
            language,
            branch,
            file,
            editor,
            activity,
            lines_added,
            lines_removed,
            is_write,
            utc_offset,
            source,
            metadata,
            import_id
        )
        select owner_id,
               sent.key,
               device.device_id,
               sent.started_at,
               sent.ended_at,
               sent.project,
               sent.language,
               sent.branch,
               sent.file,
               sent.editor,
               coalesce(sent.activity, 'coding'),
               sent.lines_added,
               sent.lines_removed,
               sent.is_write,
               sent.utc_offset,
               'wakatime',
               sent.metadata,
               open_id
          from sent
          left join activity.device
                 on device.user_id = owner_id
                and device.name = sent.device
         order by sent.key collate "C"
            on conflict (user_id, idempotency_key) do update
           set ended_at = excluded.ended_at,
               branch = excluded.branch,
               file = excluded.file,
               editor = excluded.editor,
               activity = excluded.activity,
               lines_added = excluded.lines_added,
               lines_removed = excluded.lines_removed,
               is_write = excluded.is_write,
               utc_offset = excluded.utc_offset,
               metadata = excluded.metadata
         where session.import_id = open_id
        returning session.device_id,
                  session.started_at,
                  session.ended_at,
                  xmax = 0 as is_new
    ),
    spanned as (
        select started_at, ended_at from removed
         union all
        select started_at, ended_at from earlier
         union all
        select started_at, ended_at from written
    ),
    per_device as (
        select device_id,
               min(started_at) as first_event_at,
               max(ended_at) as last_event_at,
               sum(count) as count
          from (
                   select device_id, started_at, ended_at, is_new::integer as count from written
                    union all
                   select device_id, null, null, -1 from removed
               ) as change
         group by device_id
    )
    select array(
               select (started_at at time zone 'UTC')::date
                 from spanned
                union
               select (greatest(ended_at - interval '1 millisecond', started_at) at time zone 'UTC')::date
                 from spanned
                order by 1
           ),
           (select json_agg(per_device order by device_id) from per_device),
           (select count(*) filter (where is_new) from written)
      into touched,
           changes,
           added;
    insert into activity.summary_due (user_id, date)
    select owner_id,
           marked.date
      from unnest(touched) as marked (date)
     order by marked.date
        on conflict (user_id, date) do update
       set marked_at = greatest(now(), summary_due.marked_at + interval '1 microsecond');
    insert into activity.rollup_due (user_id, date)
    select owner_id,
           marked.date
      from unnest(touched) as marked (date)
     order by marked.date
        on conflict (user_id, date) do update
       set marked_at = now(),
           is_left_raw = false;
    update activity.device_stream
       set event_count = device_stream.event_count + change.count
      from json_to_recordset(changes) as change (
               device_id uuid,
               count     bigint
           )
     where device_stream.user_id = owner_id
       and device_stream.device_id = change.device_id
       and device_stream.stream = 'coding_sessions'
       and change.count < 0;
    insert into activity.device_stream (user_id, device_id, stream, first_event_at, last_event_at, event_count)
    select owner_id,
           change.device_id,
           'coding_sessions',
           change.first_event_at,
           change.last_event_at,
           change.count
      from json_to_recordset(changes) as change (
               device_id      uuid,
               first_event_at timestamptz,
               last_event_at  timestamptz,
               count          bigint
           )
     where change.count >= 0
        on conflict (user_id, device_id, stream) do update
       set first_event_at = least(device_stream.first_event_at, excluded.first_event_at),
           last_event_at = greatest(device_stream.last_event_at, excluded.last_event_at),
           event_count = device_stream.event_count + excluded.event_count;
    return added;
end
$$;
