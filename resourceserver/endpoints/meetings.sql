-- name: calendar_load
-- Time in meetings on every calendar day, and what it leaves of the working time. Overlapping meetings count once.
--include answer
with slot as (
    select n as position,
           date,
           starts_at,
           ends_at
      from svc.days(%(from)s::date, %(to)s::date, %(tz)s)
),
--include requested_days
--include slots
--include meetings
--include met
-- Meetings of each day, clipped to it. What has no length, such as a reminder, is no meeting.
attended as (
    select touched.position,
           meeting.calendar_event_id,
           greatest(meeting.starts_at, slots.starts[touched.position]) as starts_at,
           least(meeting.ends_at, slots.ends[touched.position]) as ends_at
      from meeting,
           slots,
           lateral generate_series(
               greatest(width_bucket(meeting.starts_at, slots.starts), 1),
               width_bucket(meeting.ends_at, slots.starts)
           ) as touched (position)
     where meeting.starts_at < meeting.ends_at
       and meeting.starts_at < slots.ends[touched.position]
       and meeting.ends_at > slots.starts[touched.position]
),
-- The end of those that began before each on its day: null for the first.
followed as (
    select position,
           starts_at,
           ends_at,
           max(ends_at) over (
               partition by position
               order by starts_at,
                        ends_at,
                        calendar_event_id
               rows between unbounded preceding and 1 preceding
           ) as busy_until
      from attended
),
counted as (
    select position,
           count(*) as event_count,
           count(busy_until) as later_count,
           count(*) filter (where starts_at < busy_until + interval '10 minutes') as back_to_back_count,
           min(starts_at) as first_at,
           max(ends_at) as last_at
      from followed
     group by position
),
stretch as (
    select met.position,
           svc.duration_ms(upper(time) - lower(time)) as ms,
           svc.duration_ms(lower(time) - lag(upper(time)) over (partition by met.position order by time))
               as gap_ms
      from met,
           lateral unnest(met.times) as time
),
busy as (
    select position,
           sum(ms)::bigint as meeting_ms,
           max(ms) as longest_ms,
           coalesce(sum(gap_ms) filter (where gap_ms < 1800000), 0)::bigint as under_30_min_ms,
           coalesce(sum(gap_ms) filter (where gap_ms < 3600000), 0)::bigint as under_60_min_ms
      from stretch
     group by position
),
work as (
    select slot.position,
           tstzrange(edge.starts_at, edge.ends_at) as time
      from slot,
           lateral (
               select greatest(
                          least((slot.date + %(work_from)s::text::time) at time zone %(tz)s, slot.ends_at),
                          slot.starts_at
                      ) as starts_at,
                      greatest(
                          least((slot.date + %(work_to)s::text::time) at time zone %(tz)s, slot.ends_at),
                          slot.starts_at
                      ) as ends_at
           ) as edge
     where extract(isodow from slot.date)::text = any (%(work_days)s::text[])
       -- A change of clocks may leave nothing of a short working time.
       and edge.starts_at < edge.ends_at
),
free as (
    select work.position,
           lower(part.time) as starts_at,
           upper(part.time) as ends_at,
           svc.duration_ms(upper(part.time) - lower(part.time)) as duration_ms
      from work
      left join met using (position),
           lateral unnest(
               tstzmultirange(work.time) - coalesce(met.times, '{}'::tstzmultirange)
           ) as part (time)
),
free_row as (
    select position,
           starts_at,
           duration_ms,
           json_build_object(
               'starts_at', svc.instant(starts_at),
               'ends_at', svc.instant(ends_at),
               'duration_ms', duration_ms
           ) as line
      from free
),
left_over as (
    select position,
           sum(duration_ms)::bigint as free_ms,
           (array_agg(line order by duration_ms desc, starts_at))[1] as longest,
           json_agg(line order by starts_at) filter (where duration_ms >= 7200000) as blocks,
           count(*) filter (where duration_ms >= 7200000) as block_count
      from free_row
     group by position
),
row as (
    select slot.date,
           coalesce(busy.meeting_ms, 0) as meeting_ms,
           coalesce(counted.event_count, 0) as event_count,
           svc.instant(counted.first_at) as first_meeting_at,
           svc.instant(counted.last_at) as last_meeting_ends_at,
           coalesce(busy.longest_ms, 0) as longest_stretch_ms,
           coalesce(counted.back_to_back_count, 0) as back_to_back_count,
           svc.percent(counted.back_to_back_count, counted.later_count) as back_to_back_percent,
           coalesce(busy.under_30_min_ms, 0) as gaps_under_30_min_ms,
           coalesce(busy.under_60_min_ms, 0) as gaps_under_60_min_ms,
           coalesce(svc.duration_ms(upper(work.time) - lower(work.time)), 0) as working_ms,
           coalesce(left_over.free_ms, 0) as free_ms,
           left_over.longest as longest_free,
           coalesce(left_over.blocks, '[]') as free_blocks
      from slot
      left join counted using (position)
      left join busy using (position)
      left join work using (position)
      left join left_over using (position)
),
total as (
    select sum(meeting_ms)::bigint as meeting_ms,
           (select count(distinct calendar_event_id) from attended) as event_count,
           sum(back_to_back_count)::bigint as back_to_back_count,
           svc.percent(sum(back_to_back_count)::bigint, (select sum(later_count)::bigint from counted))
               as back_to_back_percent,
           sum(gaps_under_30_min_ms)::bigint as gaps_under_30_min_ms,
           sum(gaps_under_60_min_ms)::bigint as gaps_under_60_min_ms,
           sum(working_ms)::bigint as working_ms,
           sum(free_ms)::bigint as free_ms,
           coalesce((select sum(block_count)::bigint from left_over), 0) as free_block_count,
           (
               select line
                 from free_row
                order by duration_ms desc,
                         starts_at
                limit 1
           ) as longest_free,
           count(*) as days,
           count(*) filter (where event_count > 0) as days_with_meetings
      from row
)
select json_build_object('from', %(from)s::date, 'to', %(to)s::date) as range,
       %(given_tz)s::text as tz,
       json_build_object(
           'from', %(work_from)s::text,
           'to', %(work_to)s::text,
           'days', array(select unnest(%(work_days)s::text[])::integer order by 1)
       ) as working_time,
       json_build_object('back_to_back_ms', 600000, 'free_block_ms', 7200000) as definition,
       (select count(*) from content.calendar where user_id = %(user_id)s) as calendar_count,
       (select json_agg(row order by date) from row) as data,
       (select row_to_json(total) from total) as totals
--include end_of_answer
