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

-- name: has_other_rows
-- Whether the account has rows in a table that no demo wrote.
select exists (select from {table} where user_id = %(user_id)s and not ({invented}))

-- name: invented_id
-- A row of the demo: its id has the version of invented ones.
substr({column}::text, 15, 1) = '8'

-- name: invented_name
-- A row of the demo: its name is among those that the demo writes.
({column}) = any (%(names)s)

-- name: references
-- Tables whose rows are removed with the row that they refer to: the table of that row, their own, and when the
-- two rows belong together.
select referred.confrelid::regclass::text,
       referred.conrelid::regclass::text,
       (
           select string_agg(
                      'referring.' || quote_ident(own.attname) || ' = removed.' || quote_ident(other.attname),
                      ' and '
                  )
             from unnest(referred.conkey, referred.confkey) as pair (own_number, other_number)
             join pg_attribute as own
               on own.attrelid = referred.conrelid
              and own.attnum = pair.own_number
             join pg_attribute as other
               on other.attrelid = referred.confrelid
              and other.attnum = pair.other_number
       )
  from pg_constraint as referred
 where referred.contype = 'f'
   and referred.conrelid <> referred.confrelid
   and referred.conrelid in (select svc.tables_of_people())
   and referred.confrelid in (select svc.tables_of_people())
 union all
select referred::text,
       referring::text,
       format('referring.user_id = removed.user_id and referring.%1$I = removed.%1$I', id_column)
  from svc.unchecked_references()

-- name: lock_rows
-- Keeps others from adding rows that refer to rows of the demo, until the transaction ends.
select
  from {table}
 where user_id = %(user_id)s
   and ({invented})
   for update

-- name: remove_rows
-- Removes the account's rows that the demo wrote from a table. Those that other rows refer to remain, since these
-- would be removed too.
delete from {table} as removed
 where user_id = %(user_id)s
   and ({invented})
   and {is_free}

-- name: mark_derived_days
-- Marks the days of derived visits, which may follow from points that were removed.
insert into location.derivation_due (user_id, date)
select distinct %(user_id)s::uuid,
       (day at time zone 'UTC')::date
  from location.event
 cross join lateral generate_series(
           date_trunc('day', event.started_at, 'UTC'),
           event.ended_at,
           interval '24 hours'
       ) as day
 where event.user_id = %(user_id)s
   and event.source = 'derived'
 order by 2
    on conflict (user_id, date) do update
   set marked_at = greatest(now(), derivation_due.marked_at + interval '1 microsecond')

-- name: is_free
-- Whether no row of a table refers to the row.
not exists (select from {table} as referring where {match})

-- name: copy_rows
-- Copies rows into a table.
copy {table} ({columns}) from stdin

-- name: add_missing_row
-- Adds a row, unless the account has one of this name.
insert into {table} ({columns})
values ({values})
    on conflict do nothing

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
    first_event_at,
    last_event_at,
    event_count
)
select %(user_id)s,
       device_id,
       'app_sessions',
       max(source),
       max(received_at),
       min(started_at),
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
       min(started_at),
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
