-- What became of a file. The first statements are those of the owner of the tables, who begins and ends imports, the
-- others those of an import's own session.

-- name: become_owner
-- Gives the following statements of the transaction the rights of the owner of the tables.
set local role svc_owner

-- name: try_lock
-- Whether no other process is at work on an import or a file; the lock lasts as long as the connection.
select pg_try_advisory_lock(hashtextextended('import ' || %(what)s, 0))

-- name: unfinished
-- The newest unfinished import of a file with this name and digest. The same file under another name is another
-- import, because a receipt has one file name and would count the records of both.
select import_id,
       started_at
  from profile.import
 where user_id = %(user_id)s
   and digest = %(digest)s
   and file_name = %(file_name)s
   and chosen_format is not distinct from %(chosen_format)s
   and connection_id is null
   and status in ('running', 'interrupted')
 order by started_at desc
 limit 1

-- name: begin_import
-- Begins an import, whose session this key opens.
insert into profile.import (
    user_id,
    import_id,
    file_name,
    file_size,
    digest,
    chosen_format,
    key_hash
)
values (
    %(user_id)s,
    %(import_id)s,
    %(file_name)s,
    %(file_size)s,
    %(digest)s,
    %(chosen_format)s,
    %(key_hash)s
)
returning import_id,
          started_at

-- name: take_over
-- Continues an import with another key, so that an earlier run can write no more; no row: it was undone meanwhile.
update profile.import
   set key_hash = %(key_hash)s,
       status = 'running',
       problem = null,
       finished_at = null
 where user_id = %(user_id)s
   and import_id = %(import_id)s
   and status in ('running', 'interrupted')
returning import_id,
          started_at

-- name: end_import
-- Ends an import's run; no row: another run has taken it over, or the account is deleted.
update profile.import
   set status = %(status)s,
       problem = %(problem)s,
       key_hash = null,
       finished_at = now()
 where user_id = %(user_id)s
   and import_id = %(import_id)s
   and key_hash = %(key_hash)s
returning import_id

-- name: note_undone
-- Notes that what an import brought was removed.
update profile.import
   set status = 'undone',
       key_hash = null,
       finished_at = now()
 where user_id = %(user_id)s
   and import_id = %(import_id)s

-- name: remove_import
-- Removes the records that an import added (sql/functions/undo.sql).
select svc.remove_import(%(user_id)s, %(import_id)s)

-- name: receipt
-- The receipt of an import, as JSON; no row: there is none.
select json_build_object(
           'import_id', import.import_id,
           'file', import.file_name,
           'size', import.file_size,
           'digest', 'sha256:' || encode(import.digest, 'hex'),
           'status', import.status,
           'problem', import.problem,
           'formats', coalesce(
               (
                   select json_agg(distinct part.format)
                     from profile.import_part as part
                    where part.user_id = %(user_id)s
                      and part.import_id = import.import_id
                      and part.format is not null
               ),
               '[]'::json
           ),
           'records', (
               select json_build_object(
                          'read', coalesce(sum(part.records), 0),
                          'new', coalesce(sum(part.added), 0),
                          'known', coalesce(sum(part.known), 0),
                          'changed', coalesce(sum(part.changed), 0),
                          'refused', coalesce(sum(part.refused), 0)
                      )
                 from profile.import_part as part
                where part.user_id = %(user_id)s
                  and part.import_id = import.import_id
           ),
           'refused', coalesce(
               (
               with refusal as (
                   select reason,
                          count,
                          examples,
                          name
                     from profile.import_refusal
                    where import_refusal.user_id = %(user_id)s
                      and import_refusal.import_id = import.import_id
               )
--include refusals_by_reason
               ),
               '[]'::json
           ),
           'first_at', (
               select svc.instant(min(part.first_at))
                 from profile.import_part as part
                where part.user_id = %(user_id)s
                  and part.import_id = import.import_id
           ),
           'last_at', (
               select svc.instant(max(part.last_at))
                 from profile.import_part as part
                where part.user_id = %(user_id)s
                  and part.import_id = import.import_id
           ),
           'ignored', json_build_object(
               'count', import.ignored,
               'names', import.ignored_names
           ),
           'started_at', svc.instant(import.started_at),
           'finished_at', svc.instant(import.finished_at),
           'parts', coalesce(
               (
                   select json_agg(
                              json_build_object(
                                  'name', part.name,
                                  'format', part.format,
                                  'read', part.records,
                                  'new', part.added,
                                  'known', part.known,
                                  'changed', part.changed,
                                  'refused', part.refused,
                                  'first_at', svc.instant(part.first_at),
                                  'last_at', svc.instant(part.last_at),
                                  'finished', part.is_finished,
                                  'problem', part.problem
                              )
                              order by part.position
                          )
                     from profile.import_part as part
                    where part.user_id = %(user_id)s
                      and part.import_id = import.import_id
               ),
               '[]'::json
           )
       )
  from profile.import
 where import.user_id = %(user_id)s
   and import.import_id = %(import_id)s

-- name: imports
-- All imports of a person, newest first.
select import.import_id,
       import.started_at,
       import.file_name,
       import.status,
       (
           select array_agg(distinct part.format)
             from profile.import_part as part
            where part.user_id = %(user_id)s
              and part.import_id = import.import_id
              and part.format is not null
       ),
       counts.records,
       counts.added,
       counts.known,
       counts.changed,
       counts.refused
  from profile.import
 cross join lateral (
           select coalesce(sum(part.records), 0)::bigint as records,
                  coalesce(sum(part.added), 0)::bigint as added,
                  coalesce(sum(part.known), 0)::bigint as known,
                  coalesce(sum(part.changed), 0)::bigint as changed,
                  coalesce(sum(part.refused), 0)::bigint as refused
             from profile.import_part as part
            where part.user_id = %(user_id)s
              and part.import_id = import.import_id
       ) as counts
 where import.user_id = %(user_id)s
 order by import.started_at desc,
          import.import_id

-- name: open_import
-- Opens the session of the import for the transaction (sql/functions/imports.sql).
call svc.open_import(%(user_id)s, %(import_id)s, %(key_hash)s, %(version)s)

-- name: begin_part
-- Notes that a member is being read, unless an earlier run has.
insert into profile.import_part (user_id, import_id, name, position, format, source, kind, size, problem, is_finished)
values (
    %(user_id)s,
    %(import_id)s,
    %(name)s,
    %(position)s,
    %(format)s,
    %(source)s,
    %(kind)s,
    %(size)s,
    %(problem)s,
    %(is_finished)s
)
    on conflict do nothing

-- name: part
-- How far a member is.
select records,
       is_finished
  from profile.import_part
 where user_id = %(user_id)s
   and import_id = %(import_id)s
   and name = %(name)s

-- name: add_counts
-- Adds what became of a batch to the receipt; no row: another run has written it or is further.
update profile.import_part
   set records = records + %(added)s + %(known)s + %(changed)s + %(refused)s,
       added = added + %(added)s,
       known = known + %(known)s,
       changed = changed + %(changed)s,
       refused = refused + %(refused)s,
       first_at = least(first_at, %(first_at)s),
       last_at = greatest(last_at, %(last_at)s)
 where user_id = %(user_id)s
   and import_id = %(import_id)s
   and name = %(name)s
   and records = %(before)s
returning records

-- name: add_refusals
-- Adds refused records by reason, and keeps the first three examples of each.
insert into profile.import_refusal (user_id, import_id, name, reason, count, examples)
values (%(user_id)s, %(import_id)s, %(name)s, %(reason)s, %(count)s, %(examples)s::text[])
    on conflict (user_id, import_id, name, reason) do update
   set count = import_refusal.count + excluded.count,
       examples = (import_refusal.examples || excluded.examples)[1:3]

-- name: end_part
-- Notes that a member was read to its end, or why it could not be.
update profile.import_part
   set is_finished = true,
       problem = %(problem)s
 where user_id = %(user_id)s
   and import_id = %(import_id)s
   and name = %(name)s

-- name: note_ignored
-- Notes how many members no format recognises.
update profile.import
   set ignored = %(count)s,
       ignored_names = %(names)s::text[]
 where user_id = %(user_id)s
   and import_id = %(import_id)s
