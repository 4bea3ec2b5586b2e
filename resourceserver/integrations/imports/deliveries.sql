-- What came through a connection: a part of its import for each day of UTC on which something came. Each statement runs
-- in the session of the connection or of its pull.

-- name: add_delivery
-- Adds what became of a delivery to the part of its day.
insert into profile.import_part as part (
    user_id,
    import_id,
    name,
    position,
    format,
    source,
    kind,
    records,
    added,
    known,
    changed,
    refused,
    first_at,
    last_at,
    is_finished
)
values (
    %(user_id)s,
    %(import_id)s,
    (now() at time zone 'UTC')::date::text,
    (now() at time zone 'UTC')::date - date '2000-01-01',
    %(format)s,
    %(source)s,
    %(kind)s,
    %(added)s::bigint + %(known)s::bigint + %(changed)s::bigint + %(refused)s::bigint,
    %(added)s,
    %(known)s,
    %(changed)s,
    %(refused)s,
    %(first_at)s,
    %(last_at)s,
    true
)
    on conflict (user_id, import_id, name) do update
   set records = part.records + excluded.records,
       added = part.added + excluded.added,
       known = part.known + excluded.known,
       changed = part.changed + excluded.changed,
       refused = part.refused + excluded.refused,
       first_at = least(part.first_at, excluded.first_at),
       last_at = greatest(part.last_at, excluded.last_at)
returning name

-- name: note_delivery
-- Notes at the connection that something came.
select svc.note_delivery(%(count)s, %(is_usable)s, %(problem)s)
