-- Thousands of people with the same two days, for the bench of rollups and summaries.

-- name: busiest_day
-- The day with most sessions of one person, and their number.
select (started_at at time zone 'UTC')::date as date,
       count(*) as count
  from activity.app_session
 where user_id = %(user_id)s
 group by 1
 order by 2 desc
 limit 1

-- name: add_people
-- Accounts without any data.
insert into identity.user (user_id, email, timezone)
select md5('person ' || n)::uuid,
       'person' || n || '@example.org',
       'Europe/Berlin'
  from generate_series(1, %(people)s::integer) as n

-- name: columns
-- The columns of a table but for the owner of its rows.
select attname
  from pg_catalog.pg_attribute
 where attrelid = %(table)s::regclass
   and attnum > 0
   and not attisdropped
   and attname <> 'user_id'

-- name: mark_summaries
-- Marks a day of everybody for its summary, as a write an hour ago would have done.
insert into activity.summary_due (user_id, date, marked_at)
select user_id,
       %(date)s,
       now() - interval '1 hour'
  from identity.user
    on conflict (user_id, date) do update
   set marked_at = excluded.marked_at

-- name: mark_rollups
-- The same for its rollups.
insert into activity.rollup_due (user_id, date, marked_at)
select user_id,
       %(date)s,
       now() - interval '1 hour'
  from identity.user
    on conflict (user_id, date) do update
   set marked_at = excluded.marked_at
