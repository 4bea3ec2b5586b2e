-- What the bench of views adds to a demo, so that it becomes the life of a heavy user.

-- name: add_person
-- A person in the time zone of the demo's days.
insert into identity.user (email, timezone)
values (%(email)s, %(tz)s)
returning user_id

-- name: count_sessions
-- How many sessions the person has.
select count(*)
  from activity.app_session
 where user_id = %(user_id)s

-- name: add_rules
-- Rules for the applications of years.sql, after those of the demo, and the third device that its sessions need.
with device as (
    insert into activity.device (user_id, name)
    values (%(user_id)s, 'desk')
)
insert into activity.category_rule (user_id, priority, field, match, pattern, category)
select %(user_id)s,
       1000 + row_number() over (),
       field,
       match,
       pattern,
       category
  from (
           values ('app', 'exact', 'App 0', 'Development'),
                  ('app', 'exact', 'App 2', 'Writing'),
                  ('app', 'contains', 'App 1', 'Communication'),
                  ('domain', 'regex', 'site[12]\d*\.example', 'News'),
                  ('title', 'contains', 'Document 7', 'Games'),
                  ('app', 'exact', 'App 4', 'Design')
       ) as rule (field, match, pattern, category)

-- name: remove_future
-- Removes sessions that are not over yet.
with coding as (
    delete
      from activity.coding_session
     where user_id = %(user_id)s
       and ended_at > now()
)
delete
  from activity.app_session
 where user_id = %(user_id)s
   and ended_at > now()

-- name: mark_today
-- Marks today, as ingest does with each batch: for someone at work, the job is always behind.
with rollup as (
    insert into activity.rollup_due (user_id, date)
    values (%(user_id)s, (now() at time zone 'UTC')::date)
)
insert into activity.summary_due (user_id, date)
values (%(user_id)s, (now() at time zone 'UTC')::date)

-- name: backends
-- The processes of the database that answer readers.
select pid
  from pg_stat_activity
 where application_name = 'svc reader'
