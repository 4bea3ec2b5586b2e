-- Row-level security. May run again at any time.

-- The person for whom a job of the worker runs, as it has set at the start of its transaction. Unlike a session that
-- is no proof; it keeps a statement without a condition for the user from reaching everybody's rows.
-- Null for a job without a version: its transaction began when jobs had none.
create or replace function svc.job_user_id()
returns uuid
language sql
stable
parallel safe
return case
           when nullif(current_setting('svc.version', true), '') is not null
           then nullif(current_setting('svc.job_user_id', true), '')::uuid
       end;

-- Begins a job's transaction: until its end, the job runs for this one person. Raises 57SV1 and 57SV2
-- if the worker's version does not fit the schema (versions.sql).
drop procedure if exists svc.open_job(uuid);
create or replace procedure svc.open_job(p_user_id uuid, p_version integer default null)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.check_version(p_version);
    execute format('set local svc.job_user_id = %L; set local svc.version = %L', p_user_id, p_version);
end
$$;

-- Enables row-level security for a table, and gives it a policy for all commands, unless it has exactly this
-- one. Creating a policy anew takes a lock that all readers of the table wait for, so it is done only if
-- something differs. Conditions are therefore written as Postgres writes them back (pg_get_expr); white space
-- does not count. Without `p_check` the condition holds for new rows too.
create or replace procedure svc.set_policy(
    p_table     regclass,
    p_name      name,
    p_roles     name[],
    p_condition text,
    p_check     text default null
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if not (select relrowsecurity from pg_class where oid = p_table) then
        execute format('alter table %s enable row level security', p_table);
    end if;
    perform from pg_policy
      where polrelid = p_table
        and polname = p_name
        and polcmd = '*'
        and polpermissive
        and polroles @> array(select oid from pg_roles where rolname = any (p_roles))
        and cardinality(polroles) = cardinality(p_roles)
        and regexp_replace(pg_get_expr(polqual, polrelid), '\s', '', 'g')
            is not distinct from regexp_replace(p_condition, '\s', '', 'g')
        and regexp_replace(pg_get_expr(polwithcheck, polrelid), '\s', '', 'g')
            is not distinct from regexp_replace(p_check, '\s', '', 'g');
    if not found then
        execute format('drop policy if exists %I on %s', p_name, p_table);
        execute format(
            'create policy %I on %s to %s using (%s) %s',
            p_name,
            p_table,
            (select string_agg(quote_ident(role), ', ') from unnest(p_roles) as role),
            p_condition,
            'with check (' || p_check || ')'
        );
    end if;
end
$$;

-- Hides all rows of a table of user data from every role that serves requests, except the rows of the open session's
-- user, and lets the reader read them. A job reaches the rows of the person for whom it runs; an import reaches those
-- of the person who brought its file, in the tables that imports fill. No server logs in as the owner of the tables,
-- so the policies are enabled and not forced.
drop function if exists svc.secure_user_table(regclass);
drop function if exists svc.secure_user_table(regclass, boolean);
create or replace function svc.secure_user_table(
    p_table       regclass,
    p_is_readable boolean default true,
    p_is_imported boolean default false
)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    of_session constant text := '(user_id = ( SELECT svc.session_user_id() AS session_user_id))';
    of_job     constant text := '(user_id = ( SELECT svc.job_user_id() AS job_user_id))';
    of_import  constant text := '(user_id = ( SELECT svc.import_user_id() AS import_user_id))';
begin
    call svc.set_policy(
        p_table, 'own_rows', array['svc_reader', 'svc_ingester'], of_session, of_session
    );
    call svc.set_policy(p_table, 'rows_of_a_job', array['svc_worker'], of_job, of_job);
    if p_is_imported then
        call svc.set_policy(p_table, 'rows_of_an_import', array['svc_importer'], of_import, of_import);
    end if;
    if p_is_readable then
        execute format('grant select on %s to svc_reader', p_table);
    end if;
end
$$;

select svc.secure_user_table('activity.device', p_is_imported => true);
select svc.secure_user_table('activity.device_stream', p_is_imported => true);
select svc.secure_user_table('activity.app_session', p_is_imported => true);
select svc.secure_user_table('activity.coding_session', p_is_imported => true);
select svc.secure_user_table('activity.beat');
select svc.secure_user_table('activity.goal');
select svc.secure_user_table('activity.daily_summary');
select svc.secure_user_table('activity.screen_time', p_is_imported => true);
select svc.secure_user_table('activity.summary_due', p_is_imported => true);
select svc.secure_user_table('activity.rollup_due', p_is_imported => true);
select svc.secure_user_table('activity.raw_limit', p_is_imported => true);
select svc.secure_user_table('activity.removed_day');
select svc.secure_user_table('activity.label');
select svc.secure_user_table('activity.app_time');
select svc.secure_user_table('activity.coding_time');
select svc.secure_user_table('activity.app_timeline');
select svc.secure_user_table('activity.attention');
select svc.secure_user_table('activity.attention_due', p_is_readable => false);
select svc.secure_user_table('activity.category_score');
select svc.secure_user_table('activity.category_rule');
select svc.secure_user_table('code.event', p_is_imported => true);
select svc.secure_user_table('health.source', p_is_imported => true);
select svc.secure_user_table('health.metric', p_is_imported => true);
select svc.secure_user_table('health.sample', p_is_imported => true);
select svc.secure_user_table('health.heart_rate', p_is_imported => true);
select svc.secure_user_table('health.sleep', p_is_imported => true);
select svc.secure_user_table('health.recovery', p_is_imported => true);
select svc.secure_user_table('health.cycle', p_is_imported => true);
select svc.secure_user_table('health.message', p_is_readable => false, p_is_imported => true);
select svc.secure_user_table('health.bucket', p_is_readable => false, p_is_imported => true);
select svc.secure_user_table('health.sleep_stage', p_is_readable => false, p_is_imported => true);
select svc.secure_user_table('music.listen', p_is_imported => true);
select svc.secure_user_table('location.device', p_is_imported => true);
select svc.secure_user_table('location.point', p_is_imported => true);
select svc.secure_user_table('location.place', p_is_imported => true);
select svc.secure_user_table('location.event', p_is_imported => true);
select svc.secure_user_table('location.derivation_due', p_is_readable => false, p_is_imported => true);
select svc.secure_user_table('content.insight');
select svc.secure_user_table('content.recording', p_is_imported => true);
select svc.secure_user_table('content.title', p_is_imported => true);
select svc.secure_user_table('content.title_genre', p_is_imported => true);
select svc.secure_user_table('content.play', p_is_imported => true);
select svc.secure_user_table('content.calendar', p_is_imported => true);
select svc.secure_user_table('content.calendar_event', p_is_imported => true);
select svc.secure_user_table('profile.import');
select svc.secure_user_table('profile.import_part');
select svc.secure_user_table('profile.import_refusal');
select svc.secure_user_table('profile.upload', p_is_readable => false);
select svc.secure_user_table('profile.integration');
select svc.secure_user_table('profile.connection', p_is_readable => false);
select svc.secure_user_table('profile.integration_key', p_is_readable => false);
select svc.secure_user_table('profile.connection_secret', p_is_readable => false);
select svc.secure_user_table('profile.membership');
select svc.secure_user_table('profile.team_membership');
select svc.secure_user_table('profile.subscription');
select svc.secure_user_table('identity.user');
select svc.secure_user_table('svc.turn', p_is_readable => false, p_is_imported => true);

-- The session of an import reaches only the receipt of this import.
do $$
declare
    place regclass;
    own   constant text :=
        '((user_id = ( SELECT svc.import_user_id() AS import_user_id))'
        ' AND (import_id = (NULLIF(current_setting(''svc.import_id''::text, true), ''''::text))::uuid))';
begin
    foreach place in array array[
        'profile.import', 'profile.import_part', 'profile.import_refusal'
    ]::regclass[] loop
        call svc.set_policy(place, 'receipt_of_an_import', array['svc_importer'], own, own);
    end loop;
end
$$;

-- Organizations and their teams belong to no single person; their members see them.
call svc.set_policy(
    'profile.organization',
    'own_organizations',
    array['svc_reader'],
    '(organization_id IN (
        SELECT membership.organization_id
          FROM profile.membership
         WHERE (membership.user_id = ( SELECT svc.session_user_id() AS session_user_id))
        UNION ALL
        SELECT team.organization_id
          FROM (profile.team_membership
                JOIN profile.team USING (team_id))
         WHERE (team_membership.user_id = ( SELECT svc.session_user_id() AS session_user_id))
    ))'
);
call svc.set_policy(
    'profile.team',
    'own_teams',
    array['svc_reader'],
    '(team_id IN (
        SELECT team_membership.team_id
          FROM profile.team_membership
         WHERE (team_membership.user_id = ( SELECT svc.session_user_id() AS session_user_id))
    ))'
);

-- The authorization server looks accounts up before a person has signed in.
call svc.set_policy('identity.user', 'accounts', array['svc_authserver'], 'true', 'true');
