-- Fragments that statements about health share: the choice of a source where several devices measured the same, and
-- the date of a sleep.

-- fragment: sample_groups
-- `sample_group`: the samples that begin in a slot, by source: those that lie in the slot, and those that last longer.
-- `cut`: the parts of the latter between the edges of slots. Needs `requested`, `slot` (position, starts_at, ends_at), in
-- order and without gaps or overlaps, and `metric` (metric_type).
--
-- The total that a provider gives for a day covers the whole day, so it is used instead of samples, or not at all.
-- It is not used where the range contains only a part of the day and its provider has samples, which have exact times;
-- nor where another provider whose priority is smaller measured meanwhile.
-- needs: requested (ends_at, starts_at)
-- needs: metric (metric_type)
-- needs: slot (ends_at, position, starts_at)
-- gives: ranked_source (name, priority, provider, rank, source_id)
-- gives: edge (ends, starts)
-- gives: sample_group (count, ends, ends_at, is_whole, metric_type, position, rank, source_id, starts, starts_at, value,
--     values)
-- gives: cut (ends_at, metric_type, position, rank, starts_at, value)
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
-- One search of the index for each slot, for the samples that begin in it, and one for those that reach into the first
-- slot: no sample is longer than two days. The end of the latter is -infinity, so that each of them is cut.
search as (
    select position,
           starts_at as begins_from,
           ends_at as begins_before,
           '-infinity' as ends_after,
           ends_at
      from slot
     union all
    select 1,
           starts_at - interval '48 hours',
           starts_at,
           starts_at,
           '-infinity'
      from requested
     where starts_at < ends_at
),
-- To search the index for each slot is much cheaper than to search the slots for each sample.
sample_group as (
    select metric.metric_type,
           taken.source_id,
           array_position((select array_agg(source_id order by rank) from ranked_source), taken.source_id)
               - case when taken.is_daily_total then 1000000 else 0 end as rank,
           search.position,
           taken.is_whole,
           taken.count,
           taken.value,
           taken.starts_at,
           taken.ends_at,
           taken.starts,
           taken.ends,
           taken.values
      from metric,
           search,
           lateral (
               select source_id,
                      is_daily_total,
                      ended_at <= search.ends_at as is_whole,
                      count(*) as count,
                      sum(value) as value,
                      min(started_at) as starts_at,
                      max(ended_at) as ends_at,
                      array_agg(started_at) as starts,
                      array_agg(ended_at) as ends,
                      array_agg(value) as values
                 from (
                          select source_id,
                                 metric_type,
                                 started_at,
                                 case
                                     when ended_at > started_at then ended_at
                                     else started_at + interval '1 millisecond'
                                 end as ended_at,
                                 value,
                                 is_daily_total
                            from health.sample
                           where user_id = %(user_id)s
                             and metric_type = metric.metric_type
                             and started_at >= search.begins_from
                             and started_at < search.begins_before
                             and ended_at > search.ends_after
                      ) as timed
                where not (
                          is_daily_total
                          and exists (
                              select
                                from health.sample as other,
                                     ranked_source as own,
                                     ranked_source as its
                               where own.source_id = timed.source_id
                                 and its.source_id = other.source_id
                                 and other.user_id = %(user_id)s
                                 and other.metric_type = timed.metric_type
                                 and other.started_at > timed.started_at - interval '48 hours'
                                 and other.started_at < timed.ended_at
                                 and (other.ended_at > timed.started_at or other.started_at >= timed.started_at)
                                 and case
                                         when its.provider <> own.provider then its.priority < own.priority
                                         else not other.is_daily_total and (
                                             timed.started_at < (select starts_at from requested)
                                             or timed.ended_at > (select ends_at from requested)
                                         )
                                     end
                          )
                      )
                group by source_id,
                         is_daily_total,
                         is_whole
           ) as taken
),
-- The samples that last longer, cut at the edges of slots, with the value of each part. Differences of times are slow,
-- so no other sample has its length computed.
cut as (
    select metric_type,
           rank,
           position,
           starts_at,
           ends_at,
           value / date_part('epoch', ended_at - started_at) * date_part('epoch', ends_at - starts_at) as value
      from (
               select crossing.metric_type,
                      crossing.rank,
                      crossing.started_at,
                      crossing.ended_at,
                      crossing.value,
                      touched.position,
                      greatest(crossing.started_at, edge.starts[touched.position]) as starts_at,
                      least(crossing.ended_at, edge.ends[touched.position]) as ends_at
                 from edge,
                      (
                          select metric_type,
                                 rank,
                                 position,
                                 unnest(starts) as started_at,
                                 unnest(ends) as ended_at,
                                 unnest(values) as value
                            from sample_group
                           where not is_whole
                      ) as crossing,
                      lateral generate_series(
                          crossing.position,
                          width_bucket(crossing.ended_at - interval '1 millisecond', edge.starts)
                      ) as touched (position)
           ) as part
),

-- fragment: health_amounts
-- `amount`: the sum of each metric by the position of a slot, with nothing counted twice. Needs what `sample_groups` needs.
--
-- At each instant, one source owns the measurement: of the sources with a sample there, the one with the smallest
-- priority, then a watch before a phone before any other. The share of its value that a sample counts is the share of
-- its time that its source owns. A sample without length counts as one of a millisecond.
-- needs: requested (ends_at, starts_at)
-- needs: metric (metric_type)
-- needs: slot (ends_at, position, starts_at)
-- gives: amount (metric_type, position, value)
-- gives: ranked_source (name, priority, provider, rank, source_id)
-- gives: edge (ends, starts)
-- gives: sample_group (count, metric_type, rank, source_id)
--include sample_groups
-- The samples of each source in each slot, with the sum of their values. Where more than one rank measured, something may
-- be counted twice.
share as (
    select part.*,
           rank > min(rank) over of_slot as may_lose,
           rank < max(rank) over of_slot as may_own
      from (
               select metric_type,
                      rank,
                      position,
                      value,
                      starts_at,
                      ends_at,
                      starts,
                      ends,
                      values
                 from sample_group
                where is_whole
                union all
               select metric_type,
                      rank,
                      position,
                      value,
                      starts_at,
                      ends_at,
                      array[starts_at],
                      array[ends_at],
                      array[value]
                 from cut
           ) as part
    window of_slot as (partition by metric_type, position)
),
covered as (
    select metric_type,
           rank,
           range_agg(tstzrange(starts_at, ends_at)) as times
      from (
               select metric_type,
                      rank,
                      unnest(starts) as starts_at,
                      unnest(ends) as ends_at
                 from share
                where may_own
           ) as portion
     group by metric_type,
              rank
),
-- For each rank that others come before: the times that these own, in order, and the seconds of all such times before
-- each. It is materialized, so that it is not computed for each share.
owned as materialized (
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
                 from (
                          select metric_type,
                                 rank
                            from share
                           where may_lose
                           group by metric_type,
                                    rank
                      ) as level,
                      lateral unnest(
                          (
                              select range_agg(covered.times)
                                from covered
                               where covered.metric_type = level.metric_type
                                 and covered.rank < level.rank
                          )
                      ) as time
           ) as stretch
     group by metric_type,
              rank
),
-- The shares of which better ranks may own a part. Of most, nothing is left, since they lie within one owned time.
challenged as materialized (
    select share.*,
           coalesce(share.ends_at <= owned.ends[width_bucket(share.starts_at, owned.starts)], false) as is_lost
      from share
      left join owned using (metric_type, rank)
     where share.may_lose
),
-- The part of a portion that better ranks own: the owned seconds up to its end less those up to its start.
lost as (
    select portion.metric_type,
           portion.position,
           case
               when portion.ends_at <= owned.ends[place.first] then portion.value
               else portion.value / nullif(date_part('epoch', portion.ends_at - portion.starts_at), 0) * (
                   case
                       when owned.starts[place.last] is null then 0
                       else owned.before_s[place.last]
                           + date_part(
                                 'epoch',
                                 least(portion.ends_at, owned.ends[place.last]) - owned.starts[place.last]
                             )
                   end
                   - case
                         when owned.starts[place.first] is null then 0
                         else owned.before_s[place.first]
                             + date_part(
                                   'epoch',
                                   least(portion.starts_at, owned.ends[place.first]) - owned.starts[place.first]
                               )
                     end
               )
           end as value
      from owned,
           lateral (
               select metric_type,
                      position,
                      unnest(starts) as starts_at,
                      unnest(ends) as ends_at,
                      unnest(values) as value
                 from challenged
                where challenged.metric_type = owned.metric_type
                  and challenged.rank = owned.rank
                  and not is_lost
               offset 0
           ) as portion,
           lateral (
               select width_bucket(portion.starts_at, owned.starts) as first,
                      width_bucket(portion.ends_at, owned.starts) as last
           ) as place
),
amount as (
    select metric_type,
           position,
           sum(value) as value
      from (
               select metric_type,
                      position,
                      value
                 from share
                where not may_lose
                union all
               select metric_type,
                      position,
                      case when is_lost then 0 else value end
                 from challenged
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
