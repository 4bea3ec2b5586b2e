-- Functions with the names of Citus's, which check what its manual requires of a table and record each call.
create schema citus_stand_in;
set search_path = citus_stand_in, public;

create table pg_dist_partition (
    logicalrelid regclass primary key,
    place        text not null
);
create table call (
    name           regclass,
    column_name    text,
    colocated_with text
);
create table refused (
    name text
);

create function run_command_on_all_nodes(command text)
returns text
language sql
as $$
    select command
$$;

-- Raises if a table cannot be moved yet, or not at all.
create function check_table(p_name regclass, p_column text)
returns void
language plpgsql
as $$
begin
    if p_name::text in (select name from refused) then
        raise exception 'there is no place for %', p_name;
    end if;
    if exists (select from pg_dist_partition where logicalrelid = p_name) then
        raise exception '% is distributed already', p_name;
    end if;
    if exists (
        select from pg_constraint
         where contype = 'f'
           and (conrelid = p_name or confrelid = p_name)
    )
    then
        raise exception 'a foreign key joins % to a table that is not distributed', p_name;
    end if;
    if exists (select from pg_trigger where tgrelid = p_name and not tgisinternal) then
        raise exception '% has a trigger', p_name;
    end if;
    if p_column is not null and exists (
        select from pg_index
         where indrelid = p_name
           and indisunique
           and (
                   select attnum
                     from pg_attribute
                    where attrelid = p_name
                      and attname = p_column
               ) <> all (indkey::smallint[])
    )
    then
        raise exception 'a unique index of % must include %', p_name, p_column;
    end if;
end
$$;

create function create_reference_table(p_name regclass)
returns void
language plpgsql
as $$
begin
    perform check_table(p_name, null);
    insert into pg_dist_partition values (p_name, 'copy');
    insert into call (name) values (p_name);
end
$$;

create function create_distributed_table(p_name regclass, p_column text, colocate_with text)
returns void
language plpgsql
as $$
begin
    perform check_table(p_name, p_column);
    if colocate_with <> 'none'
        and colocate_with::regclass not in (select logicalrelid from pg_dist_partition)
    then
        raise exception '% is not distributed', colocate_with;
    end if;
    insert into pg_dist_partition values (p_name, 'person');
    insert into call values (p_name, p_column, colocate_with);
end
$$;

create function create_distributed_function(p_name regprocedure)
returns void
language sql
as $$
$$;
