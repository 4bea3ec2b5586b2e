-- Usable from version 20 on.
-- Newer code calls svc.pending_days and svc.mark_all_summaries.

-- A change of a person's time zone marks their summaries from now on; these days are still in an earlier zone.
-- Days of two zones overlap, so the neighbours of each day are marked as well.
insert into activity.summary_due (user_id, date)
select distinct summary.user_id,
       summary.date + around
  from activity.daily_summary as summary
  join identity.user as person using (user_id)
 cross join generate_series(-1, 1) as around
 where summary.tz <> person.timezone
    on conflict (user_id, date) do update
   set marked_at = greatest(now(), summary_due.marked_at + interval '1 microsecond');
