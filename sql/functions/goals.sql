-- Goals of a signed-in person: listing and changing them. May run again at any time.
--
-- The authorization server cannot read activity. Each function looks the sign-in session up, as in sign_ins.sql, and
-- covers only that session's person.

-- The goals of the signed-in person, the oldest first; no row: none, or the session is not valid.
create or replace function svc.goals(p_user_id uuid, p_session_hash bytea)
returns table (
    goal_id      uuid,
    title        text,
    metric       text,
    comparison   text,
    target       bigint,
    period       text,
    days_of_week smallint[],
    categories   text[],
    apps         text[],
    projects     text[],
    languages    text[],
    is_enabled   boolean
)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
begin atomic
    select goal.goal_id,
           goal.title,
           goal.metric,
           goal.comparison,
           goal.target,
           goal.period,
           goal.days_of_week,
           goal.categories,
           goal.apps,
           goal.projects,
           goal.languages,
           goal.is_enabled
      from activity.goal
     where goal.user_id = p_user_id
       and svc.is_signed_in(p_user_id, p_session_hash)
     order by goal.created_at,
              goal.goal_id
     limit 1000;
end;

-- Writes a goal of the signed-in person: changes the one with this id, or adds it. Returns the problem, and then
-- nothing is changed: signed_out; exists, if another goal is about the same; too_many (100 goals).
create or replace function svc.put_goal(
    p_user_id      uuid,
    p_session_hash bytea,
    p_goal_id      uuid,
    p_title        text,
    p_metric       text,
    p_comparison   text,
    p_target       bigint,
    p_period       text,
    p_days_of_week smallint[],
    p_categories   text[],
    p_apps         text[],
    p_projects     text[],
    p_languages    text[],
    p_is_enabled   boolean
)
returns text
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.begin_setting_change(p_user_id, p_session_hash) then
        return 'signed_out';
    end if;
    perform from activity.goal
      where goal.user_id = p_user_id
        and goal.goal_id <> p_goal_id
        and (goal.metric, goal.comparison, goal.target, goal.period) = (p_metric, p_comparison, p_target, p_period)
        and goal.days_of_week = p_days_of_week
        and (goal.categories, goal.apps, goal.projects, goal.languages)
            = (p_categories, p_apps, p_projects, p_languages);
    if found then
        return 'exists';
    end if;
    update activity.goal
       set title = p_title,
           metric = p_metric,
           comparison = p_comparison,
           target = p_target,
           period = p_period,
           days_of_week = p_days_of_week,
           categories = p_categories,
           apps = p_apps,
           projects = p_projects,
           languages = p_languages,
           is_enabled = p_is_enabled
     where goal.user_id = p_user_id
       and goal.goal_id = p_goal_id;
    if found then
        return null;
    end if;
    if (select count(*) >= 100 from activity.goal where goal.user_id = p_user_id) then
        return 'too_many';
    end if;
    insert into activity.goal (
        user_id,
        goal_id,
        title,
        metric,
        comparison,
        target,
        period,
        days_of_week,
        categories,
        apps,
        projects,
        languages,
        is_enabled
    )
    values (
        p_user_id,
        p_goal_id,
        p_title,
        p_metric,
        p_comparison,
        p_target,
        p_period,
        p_days_of_week,
        p_categories,
        p_apps,
        p_projects,
        p_languages,
        p_is_enabled
    );
    return null;
end
$$;

-- Pauses a goal of the signed-in person, or continues it. False: there is no such goal, or the session is not valid.
create or replace function svc.switch_goal(
    p_user_id      uuid,
    p_session_hash bytea,
    p_goal_id      uuid,
    p_is_enabled   boolean
)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.begin_setting_change(p_user_id, p_session_hash) then
        return false;
    end if;
    update activity.goal
       set is_enabled = p_is_enabled
     where goal.user_id = p_user_id
       and goal.goal_id = p_goal_id;
    return found;
end
$$;

-- Removes a goal of the signed-in person. False: there is no such goal, or the session is not valid.
create or replace function svc.remove_goal(p_user_id uuid, p_session_hash bytea, p_goal_id uuid)
returns boolean
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.begin_setting_change(p_user_id, p_session_hash) then
        return false;
    end if;
    delete
      from activity.goal
     where goal.user_id = p_user_id
       and goal.goal_id = p_goal_id;
    return found;
end
$$;
