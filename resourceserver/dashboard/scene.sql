-- name: scene
-- What every view needs to know before it asks: the person's calendar, the moment, and what the token may read.
-- The zone of the address, if it has one, stands for that of the profile.
select json_build_object(
           'tz', zone.tz,
           'today', (now() at time zone zone.tz)::date,
           'now', svc.instant(now()),
           'week_starts_on', person.week_starts_on,
           'scopes', string_to_array(current_setting('svc.scopes'), ' ')
       )
  from identity.user as person
 cross join lateral (values (coalesce(%(tz)s::text, person.timezone))) as zone (tz)
 where person.user_id = %(user_id)s
