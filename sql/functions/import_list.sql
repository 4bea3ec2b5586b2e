-- The imports of a signed-in person, for the page about them. May run again at any time.
--
-- The authorization server cannot read data of people. Each function looks the sign-in session up, as in
-- categories.sql, and reaches the imports of that session's person alone.

-- Whether a worker or a command reads the file of an import now. A worker has the person's turn, and a command a lock
-- (receipts.sql); either may be killed without ending the import.
create or replace function svc.is_being_read(p_user_id uuid, p_import_id uuid)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
begin atomic
    select exists (
               select
                 from svc.turn
                where turn.user_id = p_user_id
                  and turn.kind = 'import'
                  and turn.leased_until > now()
           )
           or exists (
               select
                 from pg_locks as held
                where held.locktype = 'advisory'
                  and held.database = (
                          select oid
                            from pg_database
                           where datname = current_database()
                      )
                  and held.objsubid = 1
                  and (held.classid::bigint << 32 | held.objid::bigint)
                      = hashtextextended('import ' || p_import_id, 0)
           );
end;

-- The imports of the signed-in person, newest first, at most `p_most`: all, those that began before the import
-- `p_before`, or the import `p_import_id` alone; no row: none, or the session is not valid. One that nobody reads any
-- more, because its worker or command was killed, is interrupted. Of members that could not be read to their end, and of
-- names that no format recognises, the first ones are listed; the receipt of `svc imports show` has them all.
drop function if exists svc.imports(uuid, bytea, integer, uuid);
create or replace function svc.imports(
    p_user_id      uuid,
    p_session_hash bytea,
    p_most         integer,
    p_before       uuid default null,
    p_import_id    uuid default null
)
returns table (
    import_id      uuid,
    file_name      text,
    status         text,
    problem        text,
    started_at     timestamptz,
    finished_at    timestamptz,
    formats        text[],
    records        bigint,
    added          bigint,
    known          bigint,
    changed        bigint,
    refused        bigint,
    first_at       timestamptz,
    last_at        timestamptz,
    part_count     bigint,
    finished_count bigint,
    problem_count  bigint,
    problems       json,
    refusals       json,
    ignored        integer,
    ignored_names  text[]
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
begin atomic
    select import.import_id,
           import.file_name,
           case
               when import.status <> 'running' or svc.is_being_read(p_user_id, import.import_id) then import.status
               else 'interrupted'
           end,
           import.problem,
           import.started_at,
           import.finished_at,
           counts.formats,
           coalesce(counts.records, 0),
           coalesce(counts.added, 0),
           coalesce(counts.known, 0),
           coalesce(counts.changed, 0),
           coalesce(counts.refused, 0),
           counts.first_at,
           counts.last_at,
           counts.part_count,
           counts.finished_count,
           counts.problem_count,
           (
               select json_agg(
                          json_build_object('name', part.name, 'problem', part.problem)
                          order by part.position
                      )
                 from (
                          select other.name,
                                 other.problem,
                                 other.position
                            from profile.import_part as other
                           where other.user_id = p_user_id
                             and other.import_id = import.import_id
                             and other.problem is not null
                           order by other.position
                           limit 5
                      ) as part
           ),
           (
               with refusal as (
                   select reason,
                          count,
                          examples,
                          name
                     from profile.import_refusal
                    where import_refusal.user_id = p_user_id
                      and import_refusal.import_id = import.import_id
               )
--include refusals_by_reason
           ),
           import.ignored,
           import.ignored_names
      from profile.import
     cross join lateral (
               select array_agg(distinct part.format) filter (where part.format is not null) as formats,
                      sum(part.records)::bigint as records,
                      sum(part.added)::bigint as added,
                      sum(part.known)::bigint as known,
                      sum(part.changed)::bigint as changed,
                      sum(part.refused)::bigint as refused,
                      min(part.first_at) as first_at,
                      max(part.last_at) as last_at,
                      count(*) as part_count,
                      count(*) filter (where part.is_finished) as finished_count,
                      count(part.problem) as problem_count
                 from profile.import_part as part
                where part.user_id = p_user_id
                  and part.import_id = import.import_id
           ) as counts
     where import.user_id = p_user_id
       and import.connection_id is null
       and svc.is_signed_in(p_user_id, p_session_hash)
       and (p_import_id is null or import.import_id = p_import_id)
       and (
               p_before is null
               or (import.started_at, import.import_id) < (
                      select other.started_at,
                             other.import_id
                        from profile.import as other
                       where other.user_id = p_user_id
                         and other.import_id = p_before
                  )
           )
     order by import.started_at desc,
              import.import_id desc
     limit least(p_most, 100);
end;
