-- Beats of an editor and their sessions, in the session of its connection (sql/functions/beats.sql).

-- name: keep_beats
-- Keeps the new beats of a batch; returns which these are, and the sessions near them. Null: there is no such device.
select svc.keep_beats(
           %(device)s,
           %(at_ms)s::bigint[],
           %(keys)s::uuid[],
           %(contents)s::json,
           %(from_ms)s::bigint[],
           %(to_ms)s::bigint[],
           %(projects)s::text[]
       )

-- name: derived_sessions
-- The sessions of a project that overlap a window.
select svc.derived_sessions(%(from_ms)s, %(to_ms)s, %(projects)s::text[])

-- name: kept_beats
-- The beats of the connection between two times.
select svc.kept_beats(%(from_ms)s, %(to_ms)s, %(most)s)

-- name: replace_sessions
-- Removes sessions of the connection and writes others. Returns how many are new.
select svc.replace_derived_sessions(%(removed)s::text[], %(sessions)s::json)
