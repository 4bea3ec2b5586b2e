-- What ``svc doctor`` reads of the database. Nothing here writes.

-- name: become_owner
-- Gives the following statements the rights of the owner of the tables.
set role svc_owner

-- name: server
-- The version, the clock and the encoding of the database, and whether this login is a superuser.
select current_setting('server_version_num')::integer as number,
       current_setting('server_version') as version,
       extract(epoch from clock_timestamp())::float8 as clock,
       pg_encoding_to_char(pg_database.encoding) as encoding
  from pg_database
 where pg_database.datname = current_database()

-- name: settings
-- Settings of the server by name, as this session has them.
select name,
       setting
  from pg_settings
 where name = any (%(names)s)

-- name: login
-- Who this connection is, and whether its settings are those that the role should have.
select current_user::text as role,
       current_setting('timezone') as timezone,
       current_setting('search_path') as search_path,
       current_setting('lock_timeout') as lock_timeout,
       current_setting('statement_timeout') as statement_timeout

-- name: roles
-- The attributes of the roles of the service.
select rolname::text,
       rolsuper,
       rolbypassrls,
       rolcreaterole,
       rolcreatedb,
       rolreplication,
       rolcanlogin
  from pg_roles
 where rolname = any (%(roles)s)

-- name: memberships
-- The roles whose rights these roles have besides their own.
select member.rolname::text as member,
       granted.rolname::text as granted
  from pg_auth_members
  join pg_roles as member on member.oid = pg_auth_members.member
  join pg_roles as granted on granted.oid = pg_auth_members.roleid
 where member.rolname = any (%(roles)s)
 order by member.rolname,
          granted.rolname

-- name: owned
-- Tables and functions of this database that these roles own.
select owner.rolname::text as owner,
       owned.name
  from (
           select relowner as owner_id,
                  oid::regclass::text as name
             from pg_class
            where relkind in ('r', 'p', 'v', 'S')
            union all
           select proowner,
                  oid::regprocedure::text
             from pg_proc
       ) as owned
  join pg_roles as owner on owner.oid = owned.owner_id
 where owner.rolname = any (%(roles)s)
 order by owner.rolname,
          owned.name

-- name: user_tables
-- All tables of user data that a token or a session can open, and all others that have a policy, with whether row-level
-- security is enabled, whether the policy for own rows is in place where a table needs it, exactly as sql/policies.sql
-- writes it, and the policies that let one of these roles, or everybody, reach everything.
select table_class.oid::regclass::text as name,
       table_class.relrowsecurity as is_enabled,
       not person.has_rows
           or exists (
               select from pg_policy
                where polrelid = table_class.oid
                  and polname = 'own_rows'
                  and polcmd = '*'
                  and polpermissive
                  and regexp_replace(pg_get_expr(polqual, polrelid), '\s', '', 'g')
                      = '(user_id=(SELECTsvc.session_user_id()ASsession_user_id))'
                  and regexp_replace(pg_get_expr(polwithcheck, polrelid), '\s', '', 'g')
                      = '(user_id=(SELECTsvc.session_user_id()ASsession_user_id))'
           ) as has_own_rows,
       array(
           select polname::text
             from pg_policy
            where polrelid = table_class.oid
              and polpermissive
              and (
                      polroles = '{0}'
                      or exists (
                          select from pg_roles
                           where pg_roles.oid = any (polroles)
                             and rolname = any (%(roles)s)
                      )
                  )
              and (
                      pg_get_expr(polqual, polrelid) = 'true'
                      or pg_get_expr(polwithcheck, polrelid) = 'true'
                  )
       ) as open_policies
  from pg_class as table_class
  join pg_namespace on pg_namespace.oid = table_class.relnamespace
  join pg_roles as owner on owner.oid = table_class.relowner
 cross join lateral (
           select exists (
                      select from pg_attribute
                       where attrelid = table_class.oid
                         and attname = 'user_id'
                         and not attisdropped
                  )
                  and (pg_namespace.nspname not in ('identity', 'oauth') or table_class.relname = 'user')
                      as has_rows
       ) as person
 where table_class.relkind in ('r', 'p')
   and owner.rolname = 'svc_owner'
   and (
           person.has_rows
           or table_class.relrowsecurity
           or exists (select from pg_policy where polrelid = table_class.oid)
       )
 order by name

-- name: oldest_marks
-- The people with marked days and the age of the oldest mark, by kind of work.
select kind,
       people_marked,
       oldest_mark_s
  from svc.work_waiting(%(version)s)
 order by kind

-- name: overdue_turns
-- How many turns have waited for more than so many seconds, for how long the first of them, and how many have failed
-- again and again.
select count(*) filter (where waited_s > %(longest_s)s) as overdue,
       coalesce(max(waited_s), 0)::float8 as longest_s,
       count(*) filter (where attempts >= %(most_attempts)s) as failing
  from (
           select extract(epoch from now() - coalesce(leased_until, due_at)) as waited_s,
                  attempts
             from svc.turn
       ) as waiting

-- name: closed_and_kept
-- Of how many people months are closed, and not removed, that so many years keep open; null years keep all.
select count(*) as people
  from activity.raw_limit
  join identity.user as person using (user_id)
 where raw_limit.closed_before > coalesce(
           greatest(svc.raw_limit_day(person.timezone, %(years)s::integer), raw_limit.removed_before),
           '-infinity'
       )

-- name: sealing_keys
-- The ids of the keys to which secrets of connections are sealed, with the number of secrets.
select key_id,
       count(*)
  from profile.connection_secret
 group by key_id
 order by key_id

-- name: dashboard
-- The redirect URIs of the dashboard.
select redirect_uris
  from oauth.client
 where client_id = %(client_id)s

-- name: counted_at
-- Until when attempts under these keys count.
select key_hash,
       forgotten_at::text
  from identity.throttle
 where key_hash = any (%(key_hashes)s)
