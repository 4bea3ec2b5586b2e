-- What a year of the demo person takes, for the bench of one person.

-- name: account
-- The id of the account.
select user_id
  from identity.user
 where email = %(email)s

-- name: sizes
-- The bytes of each table of people's data, indexes included, and the rows that the last analysis counted.
select oid::regclass::text as name,
       pg_total_relation_size(oid) as bytes,
       greatest(reltuples, 0)::bigint as count
  from pg_class
 where oid in (select svc.tables_of_people())

-- name: backends
-- The processes behind the connections of servers and workers.
select pid
  from pg_stat_activity
 where application_name like 'svc %'
   and datname = current_database()
