-- name: old_sessions
-- Everybody's sessions that are older than :years and not removed yet, the first day that must be rolled up or summed up
-- before, until when sessions have been removed and until when none are accepted; accounts in the order of their addresses.
select person.email,
       due.day::text,
       old.app_sessions,
       old.coding_sessions,
       (
           select min(date)::text
             from (
                      select date
                        from activity.rollup_due
                       where user_id = person.user_id
                         and date < due.day
                       union all
                      select date
                        from activity.summary_due
                       where user_id = person.user_id
                         and date < due.day
                  ) as marked
       ) as waits_for,
       raw_limit.removed_before::text,
       raw_limit.closed_before::text
  from identity.user as person
  left join activity.raw_limit using (user_id)
 cross join lateral (
           select day,
                  day::timestamp at time zone 'UTC' as at
             from svc.raw_limit_day(person.timezone, %(years)s::integer) as day
           offset 0
       ) as due
 cross join lateral (
           select (
                      select count(*)
                        from activity.app_session as session
                       where session.user_id = person.user_id
                         and session.started_at < due.at
                         and session.ended_at < due.at
                  ) as app_sessions,
                  (
                      select count(*)
                        from activity.coding_session as session
                       where session.user_id = person.user_id
                         and session.started_at < due.at
                         and session.ended_at < due.at
                  ) as coding_sessions
       ) as old
 where old.app_sessions + old.coding_sessions > 0
    or raw_limit.closed_before is not null
 order by person.email
