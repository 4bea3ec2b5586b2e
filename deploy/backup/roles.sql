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
 where rolname ~ '^svc_'
 order by rolname

-- name: may_read_verifiers
-- Whether this login sees passwords as PostgreSQL stores them; only superusers do.
select has_table_privilege('pg_catalog.pg_authid', 'select')

-- name: verifiers
-- The passwords of the service's roles, as PostgreSQL stores them.
select rolname as name,
       rolpassword as verifier
  from pg_catalog.pg_authid
 where rolname ~ '^svc_'
   and rolpassword is not null

-- name: memberships
-- Who is a member of a role of the service.
select granted.rolname as role,
       member.rolname as member,
       bool_or(admin_option) as may_grant
  from pg_catalog.pg_auth_members
  join pg_catalog.pg_roles as granted on granted.oid = roleid
  join pg_catalog.pg_roles as member on member.oid = pg_auth_members.member
 where granted.rolname ~ '^svc_'
 group by 1, 2
 order by 1, 2
