-- name: sleep_regularity
-- The main sleeps and naps of the days of a range, of the day before and of the day after, with their times on the
-- clock of the place where the person slept. The day's provider is that of recovery_days.
--include answer
with requested_date as (
    select %(from)s::date - 1 as first,
           %(to)s::date + 1 as last
),
--include recovery_days
night as (
    select date,
           provider,
           utc_offset,
           nap_ms,
           svc.instant((sleep).started_at) as started_at,
           svc.instant((sleep).ended_at) as ended_at,
           (extract(epoch from (sleep).started_at + utc_offset::interval) * 1000)::bigint as started_ms,
           (extract(epoch from (sleep).ended_at + utc_offset::interval) * 1000)::bigint as ended_ms,
           (sleep).asleep_ms
      from recovery_day
),
-- Searched as a map: the planner expects a few days where there are years of them, and would compare each nap with
-- each day.
provider_of_day as materialized (
    select jsonb_object_agg(date, provider) as by_date
      from recovery_day
),
nap as (
    select (extract(epoch from sleep.started_at + sleep.utc_offset::interval) * 1000)::bigint as started_ms,
           (extract(epoch from sleep.ended_at + sleep.utc_offset::interval) * 1000)::bigint as ended_ms
      from ended_sleep
      join health.sleep as sleep
        on sleep.user_id = %(user_id)s
       and sleep.sleep_id = ended_sleep.sleep_id
     where ended_sleep.is_nap
       and ended_sleep.provider = (select by_date from provider_of_day) ->> ended_sleep.date::text
)
select json_build_object('from', %(from)s::date, 'to', %(to)s::date) as range,
       (select coalesce(json_agg(night order by date), '[]') from night) as nights,
       (select coalesce(json_agg(json_build_array(started_ms, ended_ms)), '[]') from nap) as naps
--include end_of_answer
