-- The days of a tool's answer. A statement of its own, the frame, returns them first; the parts of the answer get
-- its columns as parameters. So a part can be the very statement of an endpoint, although only the database knows
-- the person's time zone.
--
-- A frame's statement has a `frame`, which begins with `today`, and ends with `framed`. The columns of `frame` are tz,
-- today, week_starts_on, first_day, last_day, starts_at, ends_at and scopes, and those that its parts need; `framed`
-- adds the members of every answer, so that these take no statement of their own.

-- fragment: today
-- `today`: the current day in the requested zone, or in the caller's own.
-- gives: today (date, tz, week_starts_on)
today as (
    select tz,
           (now() at time zone tz)::date as date,
           week_starts_on
      from (
               select coalesce(%(tz)s::text, timezone) as tz,
                      week_starts_on
                 from identity.user
                where user_id = %(user_id)s
           ) as known
),

-- fragment: same_hours
-- The instant at which it is as late on the `day` (date, starts_at, ends_at) as it is now: days that are compared with
-- today count up to it.
-- needs: today (tz)
greatest(
    least(
        (day.date + (now() at time zone today.tz)::time) at time zone today.tz,
        day.ends_at
    ),
    day.starts_at
)

-- fragment: named_periods
-- `named_period`: the days of each period with a name; "all" has no first day here. `known_since`: the first day of
-- "all". Only data that the token may read counts: the date of other data would reveal that there is some.
-- needs: today (date, tz, week_starts_on)
-- gives: known_since (date)
-- gives: named_period (first_day, last_day, name)
-- gives: may (scopes)
may as (
    select string_to_array(current_setting('svc.scopes'), ' ') as scopes
),
first_known as (
    select min(started_at) as at
      from activity.app_session
     where user_id = %(user_id)s
     union all
    select min(started_at)
      from activity.coding_session
     where user_id = %(user_id)s
     union all
    select min(least(first_app_at, first_coding_at))
      from activity.removed_day
     where user_id = %(user_id)s
     union all
    select min(occurred_at)
      from code.event
     where user_id = %(user_id)s
       and (select 'read:code' = any (scopes) from may)
     union all
    -- The index has samples in order of time only within each metric.
    select min(first.started_at)
      from health.metric as metric,
           lateral (
               select started_at
                 from health.sample
                where user_id = %(user_id)s
                  and metric_type = metric.metric_type
                order by started_at
                limit 1
           ) as first
     where metric.user_id = %(user_id)s
       and (select 'read:health' = any (scopes) from may)
     union all
    select min(recorded_at)
      from health.heart_rate
     where user_id = %(user_id)s
       and (select 'read:health' = any (scopes) from may)
     union all
    select min(ended_at)
      from health.sleep
     where user_id = %(user_id)s
       and (select 'read:health' = any (scopes) from may)
     union all
    select min(recorded_at)
      from location.point
     where user_id = %(user_id)s
       and (select 'read:location' = any (scopes) from may)
     union all
    select min(started_at)
      from location.event
     where user_id = %(user_id)s
       and (select 'read:location' = any (scopes) from may)
     union all
    select min(listened_at)
      from music.listen
     where user_id = %(user_id)s
       and (select 'read:music' = any (scopes) from may)
     union all
    select min(recorded_at)
      from content.recording
     where user_id = %(user_id)s
       and (select 'read:content' = any (scopes) from may)
     union all
    select min(starts_at)
      from content.calendar_event
     where user_id = %(user_id)s
       and (select 'read:content' = any (scopes) from may)
     union all
    select svc.day_start(min(week_start), (select tz from today))
      from content.insight
     where user_id = %(user_id)s
       and (select 'read:content' = any (scopes) from may)
     union all
    select min(watched_at)
      from content.play
     where user_id = %(user_id)s
       and (select 'read:content' = any (scopes) from may)
),
known_since as (
    select greatest(
               least((select min(at) at time zone today.tz from first_known)::date, today.date),
               -- The first day that a request may name: one row with a wrong year must not add two millennia.
               date '1900-01-01'
           ) as date
      from today
),
this as (
    select date,
           date - mod(extract(isodow from date)::integer - week_starts_on + 7, 7) as week,
           date_trunc('month', date::timestamp)::date as month,
           date_trunc('quarter', date::timestamp)::date as quarter,
           date_trunc('year', date::timestamp)::date as year
      from today
),
named_period as (
    select period.name,
           period.first_day,
           period.last_day
      from this,
           lateral (
               values ('today', this.date, this.date),
                      ('yesterday', this.date - 1, this.date - 1),
                      ('this_week', this.week, this.date),
                      ('last_week', this.week - 7, this.week - 1),
                      ('this_month', this.month, this.date),
                      ('last_month', (this.month - interval '1 month')::date, this.month - 1),
                      ('this_quarter', this.quarter, this.date),
                      ('last_quarter', (this.quarter - interval '3 months')::date, this.quarter - 1),
                      ('this_year', this.year, this.date),
                      ('last_year', (this.year - interval '1 year')::date, this.year - 1),
                      ('last_7_days', this.date - 6, this.date),
                      ('last_14_days', this.date - 13, this.date),
                      ('last_30_days', this.date - 29, this.date),
                      ('last_90_days', this.date - 89, this.date),
                      ('next_7_days', this.date + 1, this.date + 7),
                      ('all', null, this.date)
           ) as period (name, first_day, last_day)
),

-- fragment: period
-- `frame`: the requested days, which may be given by a name, as days, as instants or as local times; times stand for
-- the days that contain them. The first day of all data is read only if the request needs it.
--
-- A local time that occurs twice is its first, and one that the clock skips is as much later as the clock is put forward.
-- needs: today (date, tz, week_starts_on)
-- gives: frame (ends_at, first_day, last_day, starts_at, today, tz, week_starts_on)
-- gives: may (scopes)
--include named_periods
named as materialized (
    select today.tz,
           today.date as today,
           today.week_starts_on,
           case period.name
               when 'all' then (select date from known_since)
               else period.first_day
           end as first_day,
           period.last_day
      from today
      left join named_period as period on period.name = %(period)s::text
),
local_end as (
    select given.is_first,
           case
               when timezone(today.tz, with_offset_before.at) = given.time then with_offset_before.at
               else timezone(today.tz, given.time)
           end as at
      from today,
           (
               values (true, %(first_local)s::timestamp),
                      (false, %(last_local)s::timestamp)
           ) as given (is_first, time),
           lateral (
               select timezone(today.tz, given.time - interval '1 day') as at
           ) as day_before,
           -- With the offset of the day before, so of two equal times the first.
           lateral (
               select timezone('UTC', given.time)
                          - (timezone(today.tz, day_before.at) - timezone('UTC', day_before.at)) as at
           ) as with_offset_before
     where given.time is not null
),
given_end as (
    select coalesce(
               %(first_instant)s::timestamptz,
               (select at from local_end where is_first)
           ) as first_at,
           coalesce(
               %(last_instant)s::timestamptz,
               (select at from local_end where not is_first)
           ) as last_at
),
-- Materialized, since the planner would write these expressions out at each use of a column: several hundred times.
frame as materialized (
    select named.tz,
           named.today,
           named.week_starts_on,
           chosen.first_day,
           chosen.last_day,
           coalesce(given_end.first_at, svc.day_start(chosen.first_day, named.tz)) as starts_at,
           coalesce(given_end.last_at, svc.day_start(chosen.last_day + 1, named.tz)) as ends_at
      from named,
           given_end,
           lateral (
               select coalesce(
                          %(first_day)s::date,
                          timezone(named.tz, given_end.first_at)::date,
                          named.first_day
                      ) as first_day,
                      coalesce(
                          %(last_day)s::date,
                          timezone(
                              named.tz,
                              greatest(given_end.last_at - interval '1 millisecond', given_end.first_at)
                          )::date,
                          named.last_day
                      ) as last_day
           ) as chosen
),

-- fragment: gap
-- `gap`: consecutive days of `frame`, up to today, on which no tracker reported anything. On other days, zero
-- activity was measured; on these it is unknown.
-- needs: frame (ends_at, first_day, last_day, starts_at, today, tz)
-- gives: gap (days, first_day, last_day)
possible_day as (
    select day.date,
           day.starts_at,
           day.ends_at
      from frame,
           lateral svc.days(frame.first_day, least(frame.last_day, frame.today), frame.tz) as day
),
--include unreported_days
gap as (
    select min(date) as first_day,
           max(date) as last_day,
           count(*) as days
      from (
               select date,
                      date - row_number() over (order by date)::integer as before_the_first
                 from unreported
           ) as numbered
     group by before_the_first
     order by first_day desc
     limit 50
),

-- fragment: frame
-- `frame`: the columns that the frame's statement has returned.
-- gives: frame (ends_at, first_day, last_day, starts_at, today, tz, week_starts_on)
frame as (
    select %(frame_tz)s::text as tz,
           %(frame_today)s::date as today,
           %(frame_week_starts_on)s::integer as week_starts_on,
           %(frame_first_day)s::date as first_day,
           %(frame_last_day)s::date as last_day,
           %(frame_starts_at)s::timestamptz as starts_at,
           %(frame_ends_at)s::timestamptz as ends_at
),

-- fragment: frame_scopes
-- The scopes of the token, a column of every frame.
string_to_array(current_setting('svc.scopes'), ' ') as scopes

-- fragment: framed
-- The end of a frame's statement: `frame`, which the statement has before it, with the members of every answer.
-- needs: frame (ends_at, first_day, last_day, starts_at, today, tz)
--include gap
framed as (
    select *
      from frame
)
select framed.*,
       json_build_object(
           'from', framed.first_day,
           'to', framed.last_day,
           'starts_at', svc.instant(framed.starts_at),
           'ends_at', svc.instant(framed.ends_at)
       ) as range,
       svc.instant(now()) as generated_at,
       (
           select coalesce(
                      json_agg(
                          json_build_object('from', first_day, 'to', last_day, 'days', days)
                          order by first_day
                      ),
                      '[]'
                  )
             from gap
       ) as data_gaps,
       (
           select removed_before
             from activity.raw_limit
            where user_id = %(user_id)s
              and removed_before > framed.first_day
       ) as removed_before
  from framed

-- name: period
-- The days of a period, or the last :most_days of them. All tools for any days have this frame, so that a connection
-- keeps one plan of it.
--include answer
with frame as (
    with
--include today
--include period
    looked_at as (
        select greatest(first_day, last_day - %(most_days)s::integer + 1) as first_day
          from frame
    )
    select frame.tz,
           frame.today,
           frame.week_starts_on,
           looked_at.first_day,
           frame.last_day,
           case
               when looked_at.first_day = frame.first_day then frame.starts_at
               else svc.day_start(looked_at.first_day, frame.tz)
           end as starts_at,
           frame.ends_at,
           looked_at.first_day > frame.first_day as is_cut,
--include frame_scopes
      from frame,
           looked_at
),
--include framed
--include end_of_answer

-- name: recent
-- Days up to today or another recent day, for tools whose days are always the same: they begin :first_back days ago, or
-- when the week or the month began, whichever was earlier, and end :last_back days ago.
--include answer
with frame as (
    with
--include today
    frame as (
        select tz,
               date as today,
               week_starts_on,
               coalesce(
                   date - %(first_back)s::integer,
                   least(
                       date - mod(extract(isodow from date)::integer - week_starts_on + 7, 7),
                       date_trunc('month', date::timestamp)::date
                   )
               ) as first_day,
               date - %(last_back)s::integer as last_day
          from today
    )
    select frame.*,
           svc.day_start(first_day, tz) as starts_at,
           svc.day_start(last_day + 1, tz) as ends_at,
--include frame_scopes
      from frame
),
--include framed
--include end_of_answer
