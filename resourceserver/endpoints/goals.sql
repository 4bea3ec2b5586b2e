-- name: goals
-- Goals, the oldest first, and their periods: the current one, and those of about a year before it. Periods begin in
-- the caller's own zone and on their own first day of the week.
--
-- A period is skipped on days of the week on which a goal does not count, and if it ended before the person's first
-- session: a period without any data does not meet an "at most" goal.
--include answer
with person as (
    select timezone as tz,
           week_starts_on,
           (now() at time zone timezone)::date as today
      from identity.user
     where user_id = %(user_id)s
),
goal as (
    select goal_id,
           title,
           metric,
           comparison,
           target,
           period as kind,
           days_of_week,
           categories,
           apps,
           projects,
           languages,
           is_enabled,
           created_at
      from activity.goal
     where user_id = %(user_id)s
),
period as (
    select kind,
           age,
           first_day,
           next_day - 1 as last_day
      from person
     cross join lateral (
               select 'day' as kind,
                      age,
                      today - age as first_day,
                      today - age + 1 as next_day
                 from generate_series(0, 366) as age
                union all
               select 'week',
                      age,
                      this_week - 7 * age,
                      this_week - 7 * age + 7
                 from generate_series(0, 53) as age
                cross join lateral (
                          select today - mod(extract(isodow from today)::integer - week_starts_on + 7, 7)
                      ) as begun (this_week)
                union all
               select 'month',
                      age,
                      (this_month - age * interval '1 month')::date,
                      (this_month - (age - 1) * interval '1 month')::date
                 from generate_series(0, 12) as age
                cross join lateral (select date_trunc('month', today::timestamp)) as begun (this_month)
           ) as period     where kind in (select kind from goal)
),
first_measured as (
    select (
               least(
                   (select min(started_at) from activity.app_session where user_id = %(user_id)s),
                   (select min(started_at) from activity.coding_session where user_id = %(user_id)s)
               ) at time zone person.tz
           )::date as day
      from person
),
skipped as (
    select goal.goal_id,
           json_agg(period.age) as ages
      from goal
      join period using (kind)
     cross join first_measured
     where goal.kind = 'day'
           and extract(isodow from period.first_day)::smallint <> all (goal.days_of_week)
        or period.age > 0
           and (goal.comparison = 'at_most' or goal.target = 0)
           and (period.last_day >= first_measured.day) is not true
     group by goal.goal_id
),
row as (
    select goal.goal_id as id,
           goal.title,
           goal.metric,
           goal.comparison,
           goal.target,
           case when right(goal.metric, 3) = '_ms' then 'ms' else 'count' end as unit,
           goal.kind as period,
           goal.days_of_week,
           json_build_object(
               'categories', goal.categories,
               'apps', goal.apps,
               'projects', goal.projects,
               'languages', goal.languages
           ) as filter,
           goal.is_enabled as enabled,
           svc.instant(goal.created_at) as created_at,
           coalesce(skipped.ages, '[]') as skipped
      from goal
      left join skipped using (goal_id)
)
select (select tz from person) as tz,
       (
           select json_object_agg(kind, days)
             from (
                      select kind,
                             json_agg(json_build_object('from', first_day, 'to', last_day) order by age)
                                 as days
                        from period
                       group by kind
                  ) as known
       ) as periods,
       (select coalesce(json_agg(row order by created_at, id), '[]') from row) as data
--include end_of_answer

-- name: slots_of_periods
-- Consecutive periods as slots. Computing the instants of a year of days is slow, so this runs only for periods that
-- are needed.
--include answer
with slot as (
    select named.n as position,
           named.first_day as date,
           edge.at as starts_at,
           lead(edge.at, 1, svc.day_start(%(last_day)s::date + 1, %(tz)s)) over (order by named.n)
               as ends_at
      from unnest(%(first_days)s::date[]) with ordinality as named (first_day, n)
     cross join lateral svc.day_start(named.first_day, %(tz)s) as edge (at)
)
select
--include rendered_slots
--include end_of_answer
