-- name: roles
-- The roles of the service, with the settings of each that hold in all databases.
select rolname as name,
       rolcanlogin as can_login,
       rolinherit as inherits,
       rolconnlimit as connection_limit,
       coalesce(
           (
               select setconfig
                 from pg_catalog.pg_db_role_setting
                where setrole = pg_roles.oid
                  and setdatabase = 0
           ),
           '{}'
       ) as settings
  from pg_catalog.pg_roles
 where rolname = any (%(names)s)
 order by rolname

-- name: may_read_verifiers
-- Whether this login sees passwords as PostgreSQL stores them; only superusers do.
select has_table_privilege('pg_catalog.pg_authid', 'select')

-- name: verifiers
-- The passwords of the service's roles, as PostgreSQL stores them.
select rolname as name,
       rolpassword as verifier
  from pg_catalog.pg_authid
 where rolname = any (%(names)s)
   and rolpassword is not null

-- name: memberships
-- Who is a member of a role of the service.
select granted.rolname as role,
       member.rolname as member,
       bool_or(admin_option) as may_grant
  from pg_catalog.pg_auth_members
  join pg_catalog.pg_roles as granted on granted.oid = roleid
  join pg_catalog.pg_roles as member on member.oid = pg_auth_members.member
 where granted.rolname = any (%(names)s)
 group by 1, 2
 order by 1, 2

-- name: creations
-- Statements that create the roles of a backup that this cluster lacks. Those that it has belong to another database of
-- the service too, and keep their passwords. No role gets rights over the cluster.
select name,
       format(
           'create role %%I nosuperuser nocreatedb nocreaterole noreplication nobypassrls %%s %%s connection limit %%s%%s',
           name,
           case when can_login then 'login' else 'nologin' end,
           case when inherits then 'inherit' else 'noinherit' end,
           connection_limit,
           case when verifier is not null then format(' password %%L', verifier) end
       ) as statement
  from jsonb_to_recordset(%(roles)s) as role (
           name text,
           can_login boolean,
           inherits boolean,
           connection_limit integer,
           verifier text
       )
 where name ~ '^svc_'
   and not exists (
           select from pg_catalog.pg_roles
            where rolname = name
       )
 order by name

-- name: settings
-- Statements that give roles the settings that they have in a backup. The values of some settings are lists of names
-- between quotes.
select format(
           'alter role %%I set %%I = %%s',
           name,
           split_part(setting, '=', 1),
           case
               when split_part(setting, '=', 1) in (
                        'local_preload_libraries', 'search_path', 'session_preload_libraries', 'temp_tablespaces'
                    )
                   then (
                       select string_agg(quote_literal(btrim(element, '" ')), ', ')
                         from string_to_table(substr(setting, strpos(setting, '=') + 1), ',') as element
                   )
               else quote_literal(substr(setting, strpos(setting, '=') + 1))
           end
       ) as statement
  from jsonb_to_recordset(%(roles)s) as role (name text, settings text[]),
       unnest(settings) as setting
 where name = any (%(names)s)

-- name: grants
-- Statements that make those roles members again that this cluster has, and that are no members yet.
select format(
           'grant %%I to %%I%%s', role, member, case when may_grant then ' with admin option' end
       ) as statement
  from jsonb_to_recordset(%(memberships)s) as membership (role text, member text, may_grant boolean)
 where role ~ '^svc_'
   and exists (
           select from pg_catalog.pg_roles
            where rolname = member
       )
   and member <> current_user
   and not exists (
           select from pg_catalog.pg_auth_members
            where roleid = (select oid from pg_catalog.pg_roles where rolname = role)
              and pg_auth_members.member = (
                      select oid
                        from pg_catalog.pg_roles
                       where rolname = membership.member
                  )
       )
