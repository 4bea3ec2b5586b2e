-- fragment: days_of_goals
-- The days of the periods in `period`, and the metrics of the goals in `goal`. Needs `person`.
slot as (
    select day.n as position,
           day.date,
           day.starts_at,
           day.ends_at
      from person
     cross join (
               select min(first_day) as first_day,
                      max(last_day) as last_day
                 from period
           ) as extent
     cross join lateral svc.days(extent.first_day, extent.last_day, person.tz) as day
),
wanted as (
    select distinct metric
      from goal
),

-- fragment: reached
-- `reached`: what each goal came to in each of its periods; no row, where nothing was done. Needs the
-- fragments `days_of_goals` and `measures_of_periods`.
reached as (
    select goal.goal_id,
           part.first_day,
           sum(part.value)::bigint as value
      from goal
      join measure_of_period as part
        on part.kind = goal.kind
       and part.metric = goal.metric
     where (goal.categories = '{}' or part.category = any (goal.categories))
       and (goal.apps = '{}' or part.app = any (goal.apps))
       and (goal.projects = '{}' or part.project = any (goal.projects))
       and (goal.languages = '{}' or part.language = any (goal.languages))
     group by goal.goal_id,
              part.first_day
),

-- fragment: outcome
-- `outcome`: each goal in each of its periods, with what has become of it. Needs `person`, `goal`, `period`
-- and `reached`. What was over before somebody's first session is skipped where doing nothing would meet it:
-- who was not measured has kept below no limit.
first_measured as (
    select (
               least(
                   (select min(started_at) from activity.app_session where user_id = %(user_id)s),
                   (select min(started_at) from activity.coding_session where user_id = %(user_id)s)
               ) at time zone person.tz
           )::date as day
      from person
),
outcome as (
    select goal.goal_id,
           period.first_day,
           period.last_day,
           period.age,
           measured.value,
           case
               when goal.kind = 'day'
                    and extract(isodow from period.first_day)::smallint <> all (goal.days_of_week)
                    then 'skipped'
               when period.age > 0
                    and (goal.comparison = 'at_most' or goal.target = 0)
                    and (period.last_day >= first_measured.day) is not true
                    then 'skipped'
               when goal.comparison = 'at_least' and measured.value >= goal.target then 'met'
               when goal.comparison = 'at_most' and measured.value > goal.target then 'exceeded'
               when period.age = 0 then 'in_progress'
               when goal.comparison = 'at_least' then 'missed'
               else 'met'
           end as status
      from goal
      join period using (kind)
     cross join first_measured
      left join reached using (goal_id, first_day)
     cross join lateral (select coalesce(reached.value, 0) as value) as measured
)

-- name: goals
-- Goals, the oldest first: how far the period that is under way has come, how the last seven went, and
-- how many were met in a row. Periods begin in the caller's own zone and on their own first day of the week.
-- A row is looked for in about a year, but only of goals that none of the last seven periods has failed:
-- most answers need no more than a few days.
with person as (
    select timezone as tz,
           week_starts_on,
           (now() at time zone timezone)::date as today
      from identity.user
     where user_id = %(user_id)s
),
every_goal as (
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
every_period as (
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
           ) as period
),
recent as (
    with goal as (
        select * from every_goal
    ),
    period as (
        select * from every_period where age <= 7 and kind in (select kind from goal)
    ),
--include days_of_goals
--include asked_days
--include spans
--include categories
--include shown_in_spans
--include judged
--include app_time
--include coding_time
--include switched
--include focused
--include activity_by_day
--include measures_of_periods
--include reached
--include outcome
    select * from outcome
),
older as (
    with goal as (
        select *
          from every_goal
         where goal_id not in (
                   select goal_id
                     from recent
                    where age > 0
                      and status in ('missed', 'exceeded')
               )
    ),
    period as (
        select * from every_period where age > 7 and kind in (select kind from goal)
    ),
--include days_of_goals
--include asked_days
--include spans
--include categories
--include shown_in_spans
--include judged
--include app_time
--include coding_time
--include switched
--include focused
--include activity_by_day
--include measures_of_periods
--include reached
--include outcome
    select * from outcome
),
finished as (
    select * from recent where age > 0
     union all
    select * from older
),
broken as (
    select goal_id,
           min(age) as age
      from finished
     where status in ('missed', 'exceeded')
     group by goal_id
),
streak as (
    select finished.goal_id,
           count(*) as length
      from finished
      left join broken using (goal_id)
     where finished.status = 'met'
       and (broken.age is null or finished.age < broken.age)
     group by finished.goal_id
),
history as (
    select goal_id,
           json_agg(
               json_build_object('from', first_day, 'to', last_day, 'value', value, 'status', status)
               order by first_day
           ) as periods
      from recent
     where age > 0
     group by goal_id
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
           json_build_object(
               'period', json_build_object('from', current.first_day, 'to', current.last_day),
               'tz', person.tz,
               'value', current.value,
               'target', goal.target,
               'percent', svc.percent(current.value, goal.target),
               'status', current.status,
               'remaining', greatest(goal.target - current.value, 0)
           ) as progress,
           coalesce(streak.length, 0) as streak,
           history.periods as history,
           svc.instant(goal.created_at) as created_at
      from every_goal as goal
     cross join person
      join recent as current
        on current.goal_id = goal.goal_id
       and current.age = 0
      join history
        on history.goal_id = goal.goal_id
      left join streak
             on streak.goal_id = goal.goal_id
)
select coalesce(json_agg(row order by created_at, id), '[]') as data,
       count(*) as count
  from row
