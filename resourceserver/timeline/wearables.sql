-- Fragments that statements about health share: the choice of a source where several devices measured the same, and
-- the date of a sleep.

-- fragment: health_amounts
-- `amount`: the sum of each metric by the position of a slot, with nothing counted twice. `sample`: the samples that
-- it consists of. Needs `requested`, `slot` (position, starts_at, ends_at), in order and without overlaps, and
-- `metric` (metric_type).
--
-- At each instant, one source owns the measurement: of the sources with a sample there, the one with the smallest
-- priority, then a watch before a phone before any other. The share of its value that a sample counts is the share of
-- its time that its source owns. A sample without length counts as one of a millisecond.
--
-- The total that a provider gives for a day covers the whole day, so it is used instead of samples, or not at all.
-- It is not used where the range contains only a part of the day and its provider has samples, which have exact times;
-- nor where another provider whose priority is smaller measured meanwhile.
-- needs: requested (ends_at, starts_at)
-- needs: metric (metric_type)
-- needs: slot (ends_at, position, starts_at)
-- gives: amount (metric_type, position, value)
-- gives: ranked_source (name, priority, provider, rank, source_id)
-- gives: edge (ends, starts)
-- gives: sample (ended_at, first_position, is_void, last_position, metric_type, rank, source_id, started_at, value)
ranked_source as (
    select source_id,
           provider,
           name,
           priority,
           row_number() over (
               order by priority,
                        case kind when 'watch' then 1 when 'phone' then 2 else 3 end,
                        provider collate "C",
                        name collate "C",
                        source_id
           ) as rank
      from health.source
     where user_id = %(user_id)s
),
edge as (
    select array_agg(starts_at order by position) as starts,
           array_agg(ends_at order by position) as ends
      from slot
),
sample as (
    select taken.metric_type,
           taken.source_id,
           -- Searched in an array: the planner expects one sample where there is a year of them, and would run a
           -- join as a nested loop.
           array_position((select array_agg(source_id order by rank) from ranked_source), taken.source_id)
               - case when taken.is_daily_total then 1000000 else 0 end as rank,
           taken.started_at,
           taken.ended_at,
           taken.value,
           taken.first_position,
           -- Most samples of a year are in one slot, and a comparison is much cheaper than a search.
           case
               when taken.ended_at <= edge.ends[taken.first_position] then taken.first_position
               else width_bucket(taken.ended_at - interval '1 millisecond', edge.starts)
           end as last_position,
           taken.is_daily_total and exists (
               select
                 from health.sample as other,
                      ranked_source as own,
                      ranked_source as its
                where own.source_id = taken.source_id
                  and its.source_id = other.source_id
                  and other.user_id = %(user_id)s
                  and other.metric_type = taken.metric_type
                  and other.started_at > taken.started_at - interval '48 hours'
                  and other.started_at < taken.ended_at
                  and (other.ended_at > taken.started_at or other.started_at >= taken.started_at)
                  and case
                          when its.provider <> own.provider then its.priority < own.priority
                          else not other.is_daily_total and (
                              taken.started_at < (select starts_at from requested)
                              or taken.ended_at > (select ends_at from requested)
                          )
                      end
           ) as is_void
      from metric,
           edge,
           lateral (
               select metric_type,
                      source_id,
                      started_at,
                      case
                          when ended_at > started_at then ended_at
                          else started_at + interval '1 millisecond'
                      end as ended_at,
                      value,
                      is_daily_total,
                      greatest(width_bucket(started_at, edge.starts), 1) as first_position
                 from health.sample
                where user_id = %(user_id)s
                  and metric_type = metric.metric_type
                  -- No sample is longer than two days, so the index on its start bounds the search.
                  and started_at > (select starts_at - interval '48 hours' from requested)
                  and started_at < (select ends_at from requested)
                  and (
                          ended_at > (select starts_at from requested)
                          or started_at >= (select starts_at from requested)
                      )
                  and (select starts_at < ends_at from requested)
           ) as taken
),
-- Samples cut at the edges of slots, with the value of each part. Differences of times are slow, so no other sample
-- has its length computed.
portion as (
    select metric_type,
           rank,
           first_position as position,
           started_at as starts_at,
           ended_at as ends_at,
           value
      from sample
     where not is_void
       and first_position = last_position
       and started_at >= (select starts from edge)[first_position]
       and ended_at <= (select ends from edge)[first_position]
     union all
    select metric_type,
           rank,
           position,
           starts_at,
           ends_at,
           value / date_part('epoch', ended_at - started_at) * date_part('epoch', ends_at - starts_at)
      from (
               select sample.metric_type,
                      sample.rank,
                      sample.started_at,
                      sample.ended_at,
                      sample.value,
                      touched.position,
                      greatest(sample.started_at, (select starts from edge)[touched.position]) as starts_at,
                      least(sample.ended_at, (select ends from edge)[touched.position]) as ends_at
                 from sample,
                      lateral generate_series(sample.first_position, sample.last_position)
                               as touched (position)
                where not sample.is_void
                  and (
                          sample.first_position < sample.last_position
                          or sample.started_at < (select starts from edge)[sample.first_position]
                          or sample.ended_at > (select ends from edge)[sample.first_position]
                      )
           ) as part
),
-- The portions in slots where more than one source measured the metric, so that something may be counted twice.
contested as (
    select portion.*,
           portion.rank > shared.best as may_lose,
           portion.rank < shared.worst as may_own
      from portion,
           (
               select metric_type,
                      position,
                      min(rank) as best,
                      max(rank) as worst
                 from portion
                group by metric_type,
                         position
               having min(rank) < max(rank)
           ) as shared
     where shared.metric_type = portion.metric_type
       and shared.position = portion.position
),
covered as (
    select metric_type,
           rank,
           bool_or(may_lose) as may_lose,
           range_agg(tstzrange(starts_at, ends_at)) filter (where may_own) as times
      from contested
     group by metric_type,
              rank
),
-- For each rank that others come before: the times that these own, in order, and the seconds of all such times before
-- each.
owned as (
    select metric_type,
           rank,
           array_agg(starts_at order by starts_at) as starts,
           array_agg(ends_at order by starts_at) as ends,
           array_agg(before_s order by starts_at) as before_s
      from (
               select level.metric_type,
                      level.rank,
                      lower(time) as starts_at,
                      upper(time) as ends_at,
                      coalesce(
                          sum(date_part('epoch', upper(time) - lower(time))) over (
                              partition by level.metric_type, level.rank
                              order by lower(time)
                              rows between unbounded preceding and 1 preceding
                          ),
                          0
                      ) as before_s
                 from covered as level,
                      lateral unnest(
                          (
                              select range_agg(covered.times)
                                from covered
                               where covered.metric_type = level.metric_type
                                 and covered.rank < level.rank
                          )
                      ) as time
                where level.may_lose
           ) as stretch
     group by metric_type,
              rank
),
-- The part of a contested portion that better ranks own: the owned seconds up to its end less those up to its start.
-- Most portions lie within one owned time.
lost as (
    select contested.metric_type,
           contested.position,
           case
               when contested.ends_at <= owned.ends[place.first] then contested.value
               else contested.value / nullif(date_part('epoch', contested.ends_at - contested.starts_at), 0) * (
                   case
                       when owned.starts[place.last] is null then 0
                       else owned.before_s[place.last]
                           + date_part(
                                 'epoch',
                                 least(contested.ends_at, owned.ends[place.last]) - owned.starts[place.last]
                             )
                   end
                   - case
                         when owned.starts[place.first] is null then 0
                         else owned.before_s[place.first]
                             + date_part(
                                   'epoch',
                                   least(contested.starts_at, owned.ends[place.first]) - owned.starts[place.first]
                               )
                     end
               )
           end as value
      from contested,
           owned,
           lateral (
               select width_bucket(contested.starts_at, owned.starts) as first,
                      width_bucket(contested.ends_at, owned.starts) as last
           ) as place
     where contested.may_lose
       and owned.metric_type = contested.metric_type
       and owned.rank = contested.rank
),
amount as (
    select metric_type,
           position,
           sum(value) as value
      from (
               select metric_type,
                      position,
                      value
                 from portion
                union all
               select metric_type,
                      position,
                      -value
                 from lost
           ) as part
     group by metric_type,
              position
),

-- fragment: recovery_days
-- `recovery_day`: for each date of `requested_date` (first, last) on which a sleep ended, by the local time of that
-- sleep: the main sleep, the recovery after it, the strain of the day that began with it, and naps.
-- If several providers have data for the day, the one with the smallest priority is used. A day with only naps has no
-- main sleep. If one provider has two main sleeps for a day, the longer one counts. `ended_sleep`: all sleeps near
-- these dates, and the dates on which they ended.
-- needs: requested_date (first, last)
-- gives: ended_sleep (date, is_nap, provider, sleep_id)
-- gives: recovery_day (cycle, date, nap_count, nap_ms, provider, recovery, sleep, utc_offset)
ended_sleep as (
    select sleep.sleep_id,
           (sleep.ended_at at time zone 'UTC' + sleep.utc_offset::interval)::date as date,
           sleep.is_nap,
           sleep.asleep_ms,
           sleep.ended_at,
           sleep.utc_offset,
           source.provider,
           row_number() over (
               order by sleep.is_nap,
                        source.priority,
                        case source.kind when 'watch' then 1 when 'phone' then 2 else 3 end,
                        source.provider collate "C",
                        source.name collate "C",
                        sleep.asleep_ms desc,
                        sleep.ended_at desc,
                        sleep.sleep_id
           ) as rank
      from health.sleep as sleep
      join health.source as source
        on source.user_id = %(user_id)s
       and source.source_id = sleep.source_id
     where sleep.user_id = %(user_id)s
           -- A local date is at most one day away from the date in UTC.
       and sleep.ended_at > (select first::timestamp at time zone 'UTC' - interval '1 day' from requested_date)
       and sleep.ended_at < (select last::timestamp at time zone 'UTC' + interval '2 days' from requested_date)
),
sleep_day as (
    select date,
           (array_agg(sleep_id order by rank) filter (where not is_nap))[1] as sleep_id,
           (array_agg(provider order by rank))[1] as provider,
           (array_agg(utc_offset order by rank))[1] as utc_offset,
           count(*) filter (where is_nap and provider = provider_of_day) as nap_count,
           coalesce(sum(asleep_ms) filter (where is_nap and provider = provider_of_day), 0)::bigint as nap_ms
      from (
               select *,
                      first_value(provider) over (partition by date order by rank) as provider_of_day
                 from ended_sleep
                where date between (select first from requested_date) and (select last from requested_date)
           ) as attributed
     group by date
),
recovery_day as (
    select sleep_day.date,
           sleep_day.provider,
           sleep_day.utc_offset,
           sleep_day.nap_count,
           sleep_day.nap_ms,
           sleep,
           recovery,
           cycle
      from sleep_day
      left join health.sleep as sleep
        on sleep.user_id = %(user_id)s
       and sleep.sleep_id = sleep_day.sleep_id
      left join health.recovery as recovery
        on recovery.user_id = %(user_id)s
       and recovery.sleep_id = sleep_day.sleep_id
      left join health.cycle as cycle
        on cycle.user_id = %(user_id)s
       and cycle.sleep_id = sleep_day.sleep_id
),
