-- name: goals
-- Goals, the oldest first, and their periods: the current one, and those of about a year before it. Periods begin in
-- the given zone, or else in the caller's own, and on the caller's own first day of the week.
--
-- A period is skipped on days of the week on which a goal does not count, and if it ended before the person's first
-- session: a period without any data does not meet an "at most" goal.
--include answer
with person as (
    select zone.tz,
           coalesce(%(given_tz)s::text, profile.timezone) as given_tz,
           profile.week_starts_on,
           (now() at time zone zone.tz)::date as today
      from identity.user as profile,
           lateral (select coalesce(%(tz)s::text, profile.timezone) as tz) as zone
     where profile.user_id = %(user_id)s
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
      from person,
           lateral (
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
                 from generate_series(0, 53) as age,
                      lateral (
                          select today - mod(extract(isodow from today)::integer - week_starts_on + 7, 7)
                      ) as begun (this_week)
                union all
               select 'month',
                      age,
                      (this_month - age * interval '1 month')::date,
                      (this_month - (age - 1) * interval '1 month')::date
                 from generate_series(0, 12) as age,
                      lateral (select date_trunc('month', today::timestamp)) as begun (this_month)
           ) as period
     where kind in (select kind from goal)
),
first_measured as (
    select (
               least(
                   (select min(started_at) from activity.app_session where user_id = %(user_id)s),
                   (select min(started_at) from activity.coding_session where user_id = %(user_id)s),
                   (
                       select min(least(first_app_at, first_coding_at))
                         from activity.removed_day
                        where user_id = %(user_id)s
                   )
               ) at time zone person.tz
           )::date as day
      from person
),
skipped as (
    select goal.goal_id,
           json_agg(period.age) as ages
      from goal
      join period using (kind),
           first_measured
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
       (select given_tz from person) as given_tz,
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
-- Consecutive periods as slots, and what the stored summaries say of each: the sums of its days, or null if one of its
-- days may have activity that is not in a summary. Computing the instants of a year of days is slow, so this runs only
-- for periods that are needed.
--include answer
with slot as (
    select named.n as position,
           named.first_day as date,
           lead(named.first_day, 1, %(last_day)s::date + 1) over (order by named.n) - 1 as last_day,
           edge.at as starts_at,
           lead(edge.at, 1, svc.day_start(%(last_day)s::date + 1, %(tz)s)) over (order by named.n)
               as ends_at
      from unnest(%(first_days)s::date[]) with ordinality as named (first_day, n),
           lateral svc.day_start(named.first_day, %(tz)s) as edge (at)
),
edge as (
    select min(date) as first_day,
           max(last_day) as last_day
      from slot
),
summary as materialized (
    select summary.date,
           summary.tracked_ms,
           summary.productive_ms,
           summary.neutral_ms,
           summary.distracted_ms,
           summary.coding_ms,
           summary.app_switches,
           summary.focus_ms
      from activity.daily_summary as summary
     where summary.user_id = %(user_id)s
       and summary.date >= (select first_day from edge)
       and summary.date <= (select last_day from edge)
       and summary.tz = %(tz)s::text
       and summary.date not in (
               select pending.date
                 from edge,
                      lateral svc.pending_days(%(user_id)s, edge.first_day, edge.last_day)
                               as pending (date)
           )
),
period_day as (
    select slot.position,
           slot.date + n as date
      from slot,
           lateral generate_series(0, slot.last_day - slot.date) as n
),
-- Days of other time zones overlap at most the days of UTC beside theirs, and no session is longer than a day.
unread as (
    select period_day.position
      from period_day
      left join summary using (date)
     where summary.date is null
       and (
               exists (
                   select
                     from activity.app_session
                    where user_id = %(user_id)s
                      and started_at > (period_day.date - 2)::timestamp at time zone 'UTC'
                      and started_at < (period_day.date + 2)::timestamp at time zone 'UTC'
               )
               or exists (
                   select
                     from activity.coding_session
                    where user_id = %(user_id)s
                      and started_at > (period_day.date - 2)::timestamp at time zone 'UTC'
                      and started_at < (period_day.date + 2)::timestamp at time zone 'UTC'
               )
               or exists (
                   select
                     from activity.removed_day
                    where user_id = %(user_id)s
                      and date between period_day.date - 2 and period_day.date + 1
               )
           )
),
summed as (
    select period_day.position,
           coalesce(sum(summary.tracked_ms), 0) as tracked_ms,
           coalesce(sum(summary.productive_ms), 0) as productive_ms,
           coalesce(sum(summary.neutral_ms), 0) as neutral_ms,
           coalesce(sum(summary.distracted_ms), 0) as distracted_ms,
           coalesce(sum(summary.coding_ms), 0) as coding_ms,
           coalesce(sum(summary.app_switches), 0) as app_switches,
           coalesce(sum(summary.focus_ms), 0) as focus_ms
      from period_day
      left join summary using (date)
     where period_day.position not in (select position from unread)
     group by period_day.position
)
select (
           select json_agg(
                      case when summed.position is not null then row_to_json(summed) end
                      order by slot.position
                  )
             from slot
             left join summed using (position)
       ) as stored,
--include rendered_slots
--include end_of_answer
