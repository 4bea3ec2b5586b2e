"""What a database holds, in a form in which two databases can be compared."""

import re
from typing import Any

import psycopg
from psycopg import sql

Rows = psycopg.Connection[Any]

OWN_SCHEMAS = """
    select oid
      from pg_namespace
     where nspowner = 'svc_owner'::regrole
"""

CATALOG = {
    "tables": f"""
        select relnamespace::regnamespace::text, relname, relkind::text, relowner::regrole::text,
               relrowsecurity, relforcerowsecurity
          from pg_class
         where relnamespace in ({OWN_SCHEMAS})
    """,  # noqa: S608 -- all texts are literals
    "columns": f"""
        select attrelid::regclass::text, attname, format_type(atttypid, atttypmod), attnotnull,
               pg_get_expr(adbin, adrelid)
          from pg_attribute
          join pg_class on pg_class.oid = attrelid
          left join pg_attrdef on adrelid = attrelid and adnum = attnum
         where relnamespace in ({OWN_SCHEMAS}) and attnum > 0 and not attisdropped
    """,  # noqa: S608 -- the same
    "indexes": f"""
        select pg_get_indexdef(indexrelid), indisvalid
          from pg_index
          join pg_class on pg_class.oid = indexrelid
         where relnamespace in ({OWN_SCHEMAS})
    """,  # noqa: S608 -- the same
    "constraints": f"""
        select conrelid::regclass::text, conname, pg_get_constraintdef(oid), convalidated
          from pg_constraint
         where connamespace in ({OWN_SCHEMAS}) and contype <> 'n'
    """,  # noqa: S608 -- the same
    "functions": f"""
        select pg_get_functiondef(oid), proowner::regrole::text
          from pg_proc
         where pronamespace in ({OWN_SCHEMAS})
    """,  # noqa: S608 -- the same
    "policies": "select * from pg_policies",
    "rights": f"""
        select object, grantee::regrole::text, privilege_type, is_grantable
          from (
                   select oid::regclass::text, relacl from pg_class where relnamespace in ({OWN_SCHEMAS})
                    union all
                   select oid::regprocedure::text, proacl from pg_proc where pronamespace in ({OWN_SCHEMAS})
                    union all
                   select oid::regnamespace::text, nspacl from pg_namespace where oid in ({OWN_SCHEMAS})
                    union all
                   select attrelid::regclass::text || '.' || attname, attacl
                     from pg_attribute
                     join pg_class on pg_class.oid = attrelid
                    where relnamespace in ({OWN_SCHEMAS})
                    union all
                   select 'default ' || defaclobjtype::text, defaclacl from pg_default_acl
               ) as owned (object, rights)
         cross join lateral aclexplode(rights)
    """,  # noqa: S608 -- the same
}


def rows_by_table(connection: Rows) -> dict[str, tuple[int, str | None]]:
    """Return the number of rows of each table, and the digest of them all."""
    tables = connection.execute(
        f"select oid::regclass::text from pg_class where relkind = 'r' and relnamespace in ({OWN_SCHEMAS})"  # noqa: S608 -- the same
    ).fetchall()
    connection.execute("set timezone = 'UTC'")
    digests = {}
    for (table,) in tables:
        row = connection.execute(
            sql.SQL(
                "select count(*), md5(string_agg(md5(line::text), '' order by md5(line::text)))"
                " from {} as line"
            ).format(sql.SQL(table))
        ).fetchone()
        assert row is not None
        digests[table] = row
    return digests


def catalog(connection: Rows) -> dict[str, list[str]]:
    """Return the objects of the service: tables, policies, functions, rights and so on."""
    return {
        name: sorted(
            # PostgreSQL parses what it has written into fewer parentheses, and names more columns.
            re.sub(r"[()]| AS text", "", repr(row))
            for row in connection.execute(query.encode()).fetchall()
        )
        for name, query in CATALOG.items()
    }
