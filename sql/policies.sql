-- Row-level security. May run again at any time.

-- For whom a job of the worker is at work: what it said at the start of its transaction. That is no proof,
-- as a session is; it keeps a statement that forgot to name the user from touching everybody's rows.
create or replace function svc.job_user_id()
returns uuid
language sql
stable
parallel safe
return nullif(current_setting('svc.job_user_id', true), '')::uuid;

-- Begins a job's transaction: until its end, the job is at work for this one person.
create or replace procedure svc.open_job(p_user_id uuid)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('set local svc.job_user_id = %L', p_user_id);
end
$$;

-- Closes a table of user data to every row but those of the open session's user, for every role that
-- serves requests, and lets the reader read it. A job reaches the rows of the one it is at work for. The
-- owner of the tables is nobody's runtime role, so the policies are enabled and not forced.
drop function if exists svc.secure_user_table(regclass);
create or replace function svc.secure_user_table(p_table regclass, p_is_readable boolean default true)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('alter table %s enable row level security', p_table);
    execute format('drop policy if exists own_rows on %s', p_table);
    execute format(
        'create policy own_rows on %s to svc_reader, svc_ingester '
        'using (user_id = (select svc.session_user_id())) '
        'with check (user_id = (select svc.session_user_id()))',
        p_table
    );
    execute format('drop policy if exists rows_of_a_job on %s', p_table);
    execute format(
        'create policy rows_of_a_job on %s to svc_worker '
        'using (user_id = (select svc.job_user_id())) '
        'with check (user_id = (select svc.job_user_id()))',
        p_table
    );
    if p_is_readable then
        execute format('grant select on %s to svc_reader', p_table);
    end if;
end
$$;

select svc.secure_user_table('activity.device');
select svc.secure_user_table('activity.device_stream');
select svc.secure_user_table('activity.app_session');
select svc.secure_user_table('activity.coding_session');
select svc.secure_user_table('activity.goal');
select svc.secure_user_table('activity.daily_summary');
select svc.secure_user_table('activity.summary_due', p_is_readable => false);
select svc.secure_user_table('activity.rollup_due');
select svc.secure_user_table('activity.label');
select svc.secure_user_table('activity.app_time');
select svc.secure_user_table('activity.coding_time');
select svc.secure_user_table('activity.app_timeline');
select svc.secure_user_table('activity.category_score');
select svc.secure_user_table('activity.category_rule');
select svc.secure_user_table('code.event');
select svc.secure_user_table('health.source');
select svc.secure_user_table('health.metric');
select svc.secure_user_table('health.sample');
select svc.secure_user_table('health.heart_rate');
select svc.secure_user_table('health.sleep');
select svc.secure_user_table('health.recovery');
select svc.secure_user_table('health.cycle');
select svc.secure_user_table('music.listen');
select svc.secure_user_table('location.device');
select svc.secure_user_table('location.point');
select svc.secure_user_table('location.place');
select svc.secure_user_table('location.event');
select svc.secure_user_table('content.insight');
select svc.secure_user_table('content.recording');
select svc.secure_user_table('content.title');
select svc.secure_user_table('content.title_genre');
select svc.secure_user_table('content.play');
select svc.secure_user_table('content.calendar');
select svc.secure_user_table('content.calendar_event');
select svc.secure_user_table('profile.integration');
select svc.secure_user_table('profile.integration_credential', p_is_readable => false);
select svc.secure_user_table('profile.membership');
select svc.secure_user_table('profile.team_membership');
select svc.secure_user_table('profile.subscription');
select svc.secure_user_table('identity.user');

-- Organizations and their teams belong to nobody; who is a member sees them.
alter table profile.organization enable row level security;
drop policy if exists own_organizations on profile.organization;
create policy own_organizations on profile.organization to svc_reader
    using (
        organization_id in (
            select organization_id
              from profile.membership
             where user_id = (select svc.session_user_id())
            union all
            select team.organization_id
              from profile.team_membership
              join profile.team using (team_id)
             where user_id = (select svc.session_user_id())
        )
    );
alter table profile.team enable row level security;
drop policy if exists own_teams on profile.team;
create policy own_teams on profile.team to svc_reader
    using (
        team_id in (
            select team_id
              from profile.team_membership
             where user_id = (select svc.session_user_id())
        )
    );

-- The authorization server looks accounts up before anybody is signed in.
drop policy if exists accounts on identity.user;
create policy accounts on identity.user to svc_authserver using (true) with check (true);
