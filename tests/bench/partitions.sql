-- The sessions of many people in three layouts for the bench: one table, a partition for each year, one for each
-- month. Each layout is a schema, which the search path selects, so that all run the same statements.

-- name: make_one_table
-- The columns of the table. Constraints and row-level security are left out in all layouts: they cost the same in each.
create table app_session (like activity.app_session including defaults including storage)

-- name: make_partitioned
-- A parent without partitions.
create table app_session (
    like activity.app_session including defaults including storage
) partition by range (started_at)

-- name: make_partitions
-- A partition for each unit of time from a day until another one.
do $$
declare
    step    constant interval := ('1 ' || current_setting('bench.unit'))::interval;
    ends_at constant date     := current_setting('bench.ends_at')::date;
    at      date              := date_trunc(current_setting('bench.unit'), current_setting('bench.starts_at')::date);
begin
    while at < ends_at loop
        execute format(
            'create table %I partition of app_session for values from (%L) to (%L)',
            'app_session_' || to_char(at, 'YYYY_MM'),
            (at::timestamp at time zone 'UTC')::text,
            ((at + step)::timestamp at time zone 'UTC')::text
        );
        at := at + step;
    end loop;
end
$$

-- name: load_days
-- Some days of everybody's sessions, in the order in which trackers send them: day by day, person by person.
insert into app_session (
    user_id,
    idempotency_key,
    app_session_id,
    device_id,
    started_at,
    ended_at,
    app,
    title,
    domain,
    source,
    received_at
)
select person.user_id,
       'd1:' || left(encode(sha256(int8send(i)), 'hex'), 40),
       md5(i::text)::uuid,
       person.user_id,
       begin.at + (i %% %(a_day)s) * interval '4 minutes',
       begin.at + (i %% %(a_day)s) * interval '4 minutes' + (1 + i * 7919 %% 239) * interval '1 second',
       'Application ' || (i * i * 31 %% 40),
       'Document ' || (i * 7907 %% 2003) || ' of a project with a usual name',
       case when i %% 3 = 0 then 'site' || (i * 7919 %% 150) || '.example' end,
       'aw-bridge/1.2',
       begin.at + interval '13 hours'
  from (
           select generate_series(
                      %(from)s::bigint * %(people)s * %(a_day)s,
                      %(to)s::bigint * %(people)s * %(a_day)s - 1
                  ) as i
       ) as number
 cross join lateral (
           select md5('person ' || (i / %(a_day)s) %% %(people)s)::uuid as user_id
           offset 0
       ) as person
 cross join lateral (
           select (%(first)s::date + (i / (%(a_day)s * %(people)s))::integer)::timestamp at time zone 'UTC'
                      + interval '7 hours' as at
           offset 0
       ) as begin

-- name: add_unique_key
-- The key of events of a person.
alter table app_session add constraint app_session_pkey primary key (user_id, idempotency_key)

-- name: add_unique_key_with_time
-- The nearest key that partitions can have: it must have the column by which they are divided.
alter table app_session add constraint app_session_pkey primary key (user_id, idempotency_key, started_at)

-- name: index_by_start
-- For sessions of a person in order of time.
create index app_session_by_start on app_session (user_id, started_at, app_session_id)

-- name: index_by_app
-- For the newest sessions of an application.
create index app_session_by_app on app_session (user_id, app, started_at, app_session_id) where not idle

-- name: sizes
-- Bytes of rows, and of the indexes, with those of partitions.
select sum(pg_relation_size(oid)) filter (where relkind = 'r') as rows,
       sum(pg_relation_size(oid)) filter (where relkind = 'i') as indexes
  from pg_class
 where relnamespace = current_schema::regnamespace

-- name: position
-- Where the log of writes is.
select pg_current_wal_insert_lsn() - '0/0'::pg_lsn

-- fragment: batch
-- The events of a batch of one person, a `sent`.
select md5('person ' || %(person)s::text)::uuid as user_id,
       'd1:' || left(encode(sha256(convert_to(%(batch)s::text || ' ' || n, 'UTF8')), 'hex'), 40) as idempotency_key,
       md5('device')::uuid,
       %(at)s::timestamptz + n * interval '4 seconds',
       %(at)s::timestamptz + (n + 1) * interval '4 seconds',
       'Application ' || n %% 40,
       'Document ' || n || ' of a project with a usual name',
       'aw-bridge/1.2'
  from generate_series(1, %(events)s::integer) as n

-- name: add_batch
-- A batch of one person, of whose keys none exists.
insert into app_session (
    user_id,
    idempotency_key,
    device_id,
    started_at,
    ended_at,
    app,
    title,
    source
)
--include batch
 order by 2
    on conflict do nothing

-- name: add_batch_to_partitions
-- The same where the unique key has the time too: a key that a person has used for another time is looked for in all
-- partitions.
insert into app_session (
    user_id,
    idempotency_key,
    device_id,
    started_at,
    ended_at,
    app,
    title,
    source
)
select sent.*
  from (
--include batch
       ) as sent
 where not exists (
           select
             from app_session as known
            where known.user_id = sent.user_id
              and known.idempotency_key = sent.idempotency_key
       )
 order by 2
    on conflict do nothing

-- name: read_range
-- One person's time in a range.
select count(*),
       sum(ended_at - started_at)
  from app_session
 where user_id = md5('person ' || %(person)s::text)::uuid
   and started_at >= %(from)s::timestamptz
   and started_at < %(to)s::timestamptz

-- name: read_page
-- One person's newest hundred sessions before an instant.
select app_session_id,
       started_at,
       app,
       title
  from app_session
 where user_id = md5('person ' || %(person)s::text)::uuid
   and started_at < %(to)s::timestamptz
 order by started_at desc,
          app_session_id desc
 limit 100

-- name: read_by_app
-- One person's newest hundred sessions of an application.
select app_session_id,
       started_at,
       title
  from app_session
 where user_id = md5('person ' || %(person)s::text)::uuid
   and app = 'Application 11'
   and not idle
 order by started_at desc,
          app_session_id desc
 limit 100

-- name: forget_range
-- Removes one person's sessions before an instant.
delete from app_session
 where user_id = md5('person ' || %(person)s::text)::uuid
   and started_at < %(to)s::timestamptz

-- name: vacuum
-- Removes dead rows from tables and indexes, as autovacuum does.
vacuum (parallel 0) app_session

-- name: freeze
-- Freezes all rows, which must happen once to each.
vacuum (freeze, analyze, parallel 0) app_session
