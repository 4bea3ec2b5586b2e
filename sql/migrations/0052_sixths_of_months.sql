-- Usable from version 20 on.
-- Older code makes spans of thirds of months in place of sixths, and both kinds are used by all versions.
-- Existing thirds are used until one of their days, a rule or a score changes.

-- The job makes the spans of sixths of months (resourceserver/timeline/kept.sql), one person after the other.
insert into activity.attention_due (user_id)
select user_id
  from identity.user
    on conflict (user_id) do update
   set marked_at = greatest(now(), attention_due.marked_at + interval '1 microsecond');
