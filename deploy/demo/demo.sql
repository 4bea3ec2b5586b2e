-- name: become_owner
-- Gives the following statements the rights of the owner of the tables.
set role svc_owner

-- name: account
-- The account with an address, locked so that two runs cannot fill it at once; no row: there is none.
select user_id,
       timezone
  from identity.user
 where email = %(email)s
   for no key update

-- name: tables
-- All tables of user data, in an order in which their rows can be removed, each with the column of the rows'
-- own id, or of the row that they belong to. A table cannot be a parameter, so psycopg puts its name between the
-- braces of the statements below.
select place::text,
       (
           select attname::text
             from pg_attribute
            where attrelid = place
              and atttypid = 'uuid'::regtype
              and attname <> 'user_id'
              and (
                      attname = relname || '_id'
                      or exists (
                          select
                            from pg_constraint
                           where conrelid = place
                             and contype = 'p'
                             and attnum = any (conkey)
                      )
                  )
            order by attname = relname || '_id' desc,
                  attnum
            limit 1
       )
  from svc.tables_of_people() with ordinality as listed (place, position)
  join pg_class
    on pg_class.oid = place
 order by position

-- name: has_rows
-- Whether the account has rows in a table.
select exists (select from {table} where user_id = %(user_id)s)

-- name: has_other_ids
-- Whether the account has rows in a table whose ids do not have the version of invented ones.
select exists (
           select
             from {table}
            where user_id = %(user_id)s
              and substr({column}::text, 15, 1) <> '8'
       )

-- name: has_other_names
-- Whether the account has rows in a table whose names are not among those that the demo writes.
select exists (
           select
             from {table}
            where user_id = %(user_id)s
              and ({column}) <> all (%(names)s)
       )

-- name: remove_rows
-- Removes the account's rows from a table.
delete from {table}
 where user_id = %(user_id)s

-- name: copy_rows
-- Copies rows into a table.
copy {table} ({columns}) from stdin

-- name: add_organization
-- Adds the organization of the account, which may have other members and is never removed with the account's rows.
insert into profile.organization (organization_id, name, slug, created_at)
values (%(organization_id)s, %(name)s, %(slug)s, %(created_at)s)
    on conflict (organization_id) do nothing

-- name: add_team
-- Adds a team of the organization.
insert into profile.team (organization_id, team_id, name, created_at)
values (%(organization_id)s, %(team_id)s, %(name)s, %(created_at)s)
    on conflict (team_id) do nothing

-- name: count_streams
-- Counts what each device has sent, as ingest does.
insert into activity.device_stream (
    user_id,
    device_id,
    stream,
    source,
    last_sync_at,
    last_event_at,
    event_count
)
select %(user_id)s,
       device_id,
       'app_sessions',
       max(source),
       max(received_at),
       max(ended_at),
       count(*)
  from activity.app_session
 where user_id = %(user_id)s
 group by device_id
 union all
select %(user_id)s,
       device_id,
       'coding_sessions',
       max(source),
       max(received_at),
       max(ended_at),
       count(*)
  from activity.coding_session
 where user_id = %(user_id)s
 group by device_id

-- name: mark_days
-- Marks every day that has measurements, as ingest does, so that the job writes its summary.
insert into activity.summary_due (user_id, date)
select distinct %(user_id)s::uuid,
       touched.date
  from (
           select started_at,
                  ended_at
             from activity.app_session
            where user_id = %(user_id)s
            union all
           select started_at,
                  ended_at
             from activity.coding_session
            where user_id = %(user_id)s
       ) as session
 cross join lateral (
           values ((session.started_at at time zone 'UTC')::date),
                  (
                      (
                          greatest(session.ended_at - interval '1 millisecond', session.started_at)
                          at time zone 'UTC'
                      )::date
                  )
       ) as touched (date)

-- name: mark_rollups
-- Marks all days for the job that makes rollups, and keeps it away until the end of the transaction
-- (sql/functions/rollups.sql).
select svc.mark_all_days(%(user_id)s)

-- name: analyze
-- Renews the planner's statistics, which would otherwise say that the table is almost empty.
analyze {table}
