-- Usable from version 20 on.
-- Older code makes spans without streaks, and marks them with a digest of rules of its own. So newer code does not use
-- these for streaks, nor older code the others for detours. While jobs of both run, each makes the spans of the other
-- again, and an older one may take the mark that is set here. Then newer code sets it again with the person's next
-- roll-up, because it finds spans without streaks.

-- The streaks of focus that begin in a span of days, in order of time, each whole. Where the days that the span was made
-- of do not show what ended one, its reason is null. Applications and categories are those that the rules of the span
-- decide (resourceserver/timeline/kept.sql), and the digest in `rules` stands for them too. `streak_started` is null as
-- long as they are missing.
alter table activity.attention
    add column streak_started          bigint[],
    add column streak_ended            bigint[]  not null default '{}',
    add column streak_reason           text[]    not null default '{}',
    -- When the time began that broke it; without any, the end of the last use.
    add column streak_broken           bigint[]  not null default '{}',
    -- The length of the pause that broke it.
    add column streak_gap              bigint[]  not null default '{}',
    add column streak_breaker_app      text[]    not null default '{}',
    add column streak_breaker_category text[]    not null default '{}',
    add column streak_productive       bigint[]  not null default '{}',
    add column streak_top_app          text[]    not null default '{}',
    add column streak_top_category     text[]    not null default '{}',
    add column streak_apps             integer[] not null default '{}';

-- The job makes all spans again, one person after the other.
insert into activity.attention_due (user_id)
select user_id
  from identity.user
    on conflict (user_id) do update
   set marked_at = greatest(now(), attention_due.marked_at + interval '1 microsecond');
