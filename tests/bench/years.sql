-- Years of a busy life for the bench, up to yesterday.

-- name: add_person
-- A person with three devices and rules of their own, and with sessions that these rules match.
with person as (
    insert into identity.user (email)
    values (%(email)s)
    returning user_id
),
device as (
    insert into activity.device (user_id, name)
    select user_id,
           name
      from person
     cross join unnest(array['laptop', 'phone', 'desk']) as name
),
rule as (
    insert into activity.category_rule (user_id, priority, field, match, pattern, category)
    select user_id,
           row_number() over (),
           field,
           match,
           pattern,
           category
      from person
     cross join (
               values ('app', 'exact', 'App 0', 'Development'),
                      ('app', 'exact', 'App 2', 'Writing'),
                      ('app', 'contains', 'App 1', 'Communication'),
                      ('domain', 'exact', 'site0.example', 'Reference'),
                      ('domain', 'regex', 'site[12]\d*\.example', 'News'),
                      ('title', 'contains', 'Document 7', 'Games'),
                      ('app', 'exact', 'App 4', 'Design'),
                      ('app', 'exact', 'App 7', 'Entertainment')
           ) as rule (field, match, pattern, category)
)
select user_id
  from person

-- name: seed
-- Makes what is random the same in every run.
select setseed(0.42)

-- name: add_sessions
-- A year of sessions, so many a day between half past six in the morning and late in the evening: some overlap,
-- one in a hundred comes after a pause, and a few are idle.
insert into activity.app_session (
    user_id,
    idempotency_key,
    device_id,
    started_at,
    ended_at,
    idle,
    app,
    title,
    domain,
    category
)
select %(user_id)s,
       date || ' ' || n,
       device.ids[1 + floor(3 * random() ^ 3)],
       started_at,
       started_at + own_ms * interval '1 millisecond',
       is_idle,
       'App ' || app,
       'Document ' || floor(2000 * random() ^ 2),
       case when app in (1, 3, 5) then 'site' || floor(150 * random() ^ 2.5) || '.example' end,
       case when app = 6 then 'Shopping' end
  from (
           select *,
                  date::timestamp at time zone 'UTC'
                      + interval '6 hours 30 minutes'
                      + (sum(own_ms + pause_ms) over (partition by date order by n) - own_ms - pause_ms)
                            * interval '1 millisecond' as started_at
             from (
                      select %(from)s::date + day as date,
                             n,
                             floor(-ln(1 - random()) * 44000000 / %(a_day)s)::bigint as own_ms,
                             case
                                 when random() < 0.008
                                     then floor(300000 + random() * 2100000000 / %(a_day)s)
                                 when random() < 0.15 then -3000
                                 else 0
                             end::bigint as pause_ms,
                             floor(40 * random() ^ 3)::integer as app,
                             random() < 0.02 as is_idle
                        from generate_series(0, 364) as day
                       cross join generate_series(1, %(a_day)s::integer) as n
                  ) as drawn
       ) as placed
 cross join (
           select array_agg(device_id order by name) as ids
             from activity.device
            where user_id = %(user_id)s
       ) as device

-- name: add_coding_sessions
-- Coding sessions in the same year, one for every ninth session.
insert into activity.coding_session (
    user_id,
    idempotency_key,
    device_id,
    started_at,
    ended_at,
    project,
    language,
    file,
    lines_added,
    lines_removed
)
select user_id,
       idempotency_key,
       device_id,
       started_at,
       ended_at,
       'project ' || floor(20 * random() ^ 2),
       (array['Python', 'SQL', 'Go', 'Rust'])[1 + floor(5 * random())],
       'file ' || floor(200 * random()),
       floor(20 * random()),
       floor(9 * random())
  from activity.app_session
 where user_id = %(user_id)s
   and started_at >= %(from)s::date::timestamp at time zone 'UTC'
   and started_at < (%(from)s::date + 365)::timestamp at time zone 'UTC'
   and app = 'App 0'
   and random() < 0.38

-- name: mark_days
-- Marks all days, as ingest would have done.
select svc.mark_all_days(%(user_id)s)

-- name: sizes
-- Bytes on disk, indexes included.
select pg_total_relation_size('activity.app_session') + pg_total_relation_size('activity.coding_session')
           as sessions,
       pg_total_relation_size('activity.app_time') as app_time,
       pg_total_relation_size('activity.coding_time') as coding_time,
       pg_total_relation_size('activity.app_timeline') as app_timeline,
       pg_total_relation_size('activity.label') as label

-- name: make_marks_void
-- A trigger that throws marks away as they come, for measuring what ingest costs without them.
create function public.nothing() returns trigger language plpgsql as 'begin return null; end';
create trigger void before insert on activity.rollup_due for each row execute function public.nothing();
alter table activity.rollup_due disable trigger void

-- name: without_marks
-- Throws marks away from now on.
alter table activity.rollup_due enable trigger void

-- name: with_marks
-- Keeps them again.
alter table activity.rollup_due disable trigger void

-- name: days_made
-- How many days of a person have valid rollups.
select count(*)
  from activity.app_timeline
 where user_id = %(user_id)s
   and date not in (select date from activity.rollup_due where user_id = %(user_id)s)

-- name: forget_marks
-- Takes all marks away.
delete from activity.rollup_due
