-- The rest of what is known of somebody's activity: coding, what trackers have sent, goals, summaries, and
-- what categories time falls into.

create table activity.coding_session (
    user_id           uuid           not null,
    idempotency_key   text           not null,
    coding_session_id uuid           not null default gen_random_uuid(),
    device_id         uuid           not null,
    started_at        timestamptz(3) not null,
    ended_at          timestamptz(3) not null,
    project           text           not null,
    language          text,
    branch            text,
    file              text,
    editor            text,
    activity          text           not null default 'coding',
    lines_added       integer,
    lines_removed     integer,
    is_write          boolean,
    utc_offset        text,
    source            text,
    metadata          json,
    received_at       timestamptz    not null default now(),
    constraint coding_session_pkey primary key (user_id, idempotency_key),
    constraint coding_session_is_of_a_device
        foreign key (user_id, device_id) references activity.device on delete cascade,
    constraint coding_session_ends_after_its_start check (ended_at >= started_at),
    constraint coding_session_lasts_a_day_at_most check (ended_at - started_at <= interval '24 hours'),
    constraint coding_session_starts_in_our_time check (started_at >= '2000-01-01 00:00:00+00'),
    constraint coding_session_year_has_four_digits check (
        least(started_at, ended_at, received_at) >= '0001-01-01 00:00:00+00'
        and greatest(started_at, ended_at, received_at) <= '9999-12-31 23:59:59.999+00'
    ),
    constraint coding_session_key_is_short check (length(idempotency_key) between 1 and 200),
    constraint coding_session_project_is_short check (length(project) between 1 and 255),
    constraint coding_session_language_is_short check (length(language) <= 64),
    constraint coding_session_branch_is_short check (length(branch) <= 255),
    constraint coding_session_file_is_short check (length(file) <= 1024),
    constraint coding_session_editor_is_short check (length(editor) <= 64),
    constraint coding_session_source_is_short check (length(source) <= 128),
    constraint coding_session_lines_are_few check (
        lines_added between 0 and 10000000 and lines_removed between 0 and 10000000
    ),
    constraint coding_session_activity_is_a_known_one check (
        activity in (
            'coding',
            'debugging',
            'building',
            'testing',
            'reviewing',
            'writing_docs',
            'ai_coding',
            'other'
        )
    )
);
create index coding_session_by_start
    on activity.coding_session (user_id, started_at, coding_session_id);

-- What one device has sent of one stream. A row for each, so that trackers on two devices do not wait for each
-- other's counts. Where both mark the same day (summary_due), one does wait until the other has committed.
create table activity.device_stream (
    user_id       uuid           not null,
    device_id     uuid           not null,
    stream        text           not null,
    source        text,
    last_sync_at  timestamptz(3) not null,
    last_event_at timestamptz(3),
    event_count   bigint         not null default 0,
    constraint device_stream_pkey primary key (user_id, device_id, stream),
    constraint device_stream_is_of_a_device
        foreign key (user_id, device_id) references activity.device on delete cascade,
    constraint device_stream_is_a_known_one check (stream in ('app_sessions', 'coding_sessions')),
    constraint device_stream_counts_up check (event_count >= 0),
    constraint device_stream_year_has_four_digits check (
        least(last_sync_at, last_event_at) >= '0001-01-01 00:00:00+00'
        and greatest(last_sync_at, last_event_at) <= '9999-12-31 23:59:59.999+00'
    )
);

insert into activity.device_stream (
    user_id,
    device_id,
    stream,
    source,
    last_sync_at,
    last_event_at,
    event_count
)
select user_id,
       device_id,
       'app_sessions',
       (array_agg(source order by received_at desc))[1],
       max(received_at),
       max(ended_at),
       count(*)
  from activity.app_session
 group by user_id,
          device_id;

-- What somebody wants of their days, weeks or months. An empty filter means all, and what its metric cannot
-- be filtered by has to stay empty.
create table activity.goal (
    user_id      uuid           not null,
    goal_id      uuid           not null default gen_random_uuid(),
    title        text           not null,
    metric       text           not null,
    comparison   text           not null,
    target       bigint         not null,
    period       text           not null,
    days_of_week smallint[]     not null default '{1,2,3,4,5,6,7}',
    categories   text[]         not null default '{}',
    apps         text[]         not null default '{}',
    projects     text[]         not null default '{}',
    languages    text[]         not null default '{}',
    is_enabled   boolean        not null default true,
    created_at   timestamptz(3) not null default now(),
    constraint goal_pkey primary key (user_id, goal_id),
    constraint goal_title_is_short check (length(title) between 1 and 200),
    constraint goal_is_of_a_metric_of_activity check (
        metric in (
            'tracked_ms',
            'productive_ms',
            'distracted_ms',
            'neutral_ms',
            'coding_ms',
            'app_switches',
            'session_count',
            'focus_ms',
            'longest_focus_ms'
        )
    ),
    constraint goal_compares_one_way check (comparison in ('at_least', 'at_most')),
    constraint goal_target_is_a_measure check (target between 0 and 1000000000000),
    constraint goal_year_has_four_digits check (
        created_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    ),
    constraint goal_period_is_a_known_one check (period in ('day', 'week', 'month')),
    constraint goal_days_are_iso_weekdays check (
        days_of_week <@ '{1,2,3,4,5,6,7}' and cardinality(days_of_week) between 1 and 7
    ),
    constraint goal_of_longer_periods_is_for_all_days check (
        period = 'day' or days_of_week @> '{1,2,3,4,5,6,7}'
    ),
    constraint goal_filters_what_can_be_filtered check (
        (categories || apps = '{}' or metric not in (
            'coding_ms',
            'app_switches',
            'focus_ms',
            'longest_focus_ms'
        ))
        and (projects || languages = '{}' or metric = 'coding_ms')
    )
);

-- The days of somebody's life as they were summed up, each in the zone that was theirs then. A summary is
-- provisional until its day has been over for an hour, which is at `final_at`.
create table activity.daily_summary (
    user_id          uuid           not null,
    date             date           not null,
    tz               text           not null,
    status           text           not null,
    final_at         timestamptz(3) not null,
    tracked_ms       bigint         not null,
    productive_ms    bigint         not null,
    neutral_ms       bigint         not null,
    distracted_ms    bigint         not null,
    coding_ms        bigint         not null,
    app_switches     bigint         not null,
    focus_ms         bigint         not null,
    longest_focus_ms bigint         not null,
    top_apps         json           not null,
    top_categories   json           not null,
    top_projects     json           not null,
    text             text,
    generated_at     timestamptz(3) not null default now(),
    constraint daily_summary_pkey primary key (user_id, date),
    constraint daily_summary_status_is_a_known_one check (status in ('provisional', 'final')),
    constraint daily_summary_measures_are_some check (
        least(
            tracked_ms,
            productive_ms,
            neutral_ms,
            distracted_ms,
            coding_ms,
            app_switches,
            focus_ms,
            longest_focus_ms
        ) >= 0
        and greatest(
            tracked_ms,
            productive_ms,
            neutral_ms,
            distracted_ms,
            coding_ms,
            app_switches,
            focus_ms,
            longest_focus_ms
        ) <= 1000000000000
    ),
    constraint daily_summary_year_has_four_digits check (
        date between '0001-01-01' and '9999-12-31'
        and least(final_at, generated_at) >= '0001-01-01 00:00:00+00'
        and greatest(final_at, generated_at) <= '9999-12-31 23:59:59.999+00'
    )
);
create index daily_summary_provisional
    on activity.daily_summary (user_id, final_at)
 where status = 'provisional';

-- Days, in UTC, whose summaries are out of date because something was measured on them. Whoever writes
-- measurements marks them in the same transaction, and `marked_at` is another one each time. So whoever makes
-- a summary and then removes the mark that was there before, if it is still the same one and nobody holds it,
-- has seen all that was written.
create table activity.summary_due (
    user_id   uuid        not null,
    date      date        not null,
    marked_at timestamptz not null default now(),
    constraint summary_due_pkey primary key (user_id, date),
    constraint summary_due_year_has_four_digits check (
        date between '0001-01-01' and '9999-12-31'
        and marked_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    )
);

insert into activity.summary_due (user_id, date)
select distinct session.user_id,
       touched.date
  from activity.app_session as session
 cross join lateral (
           values ((session.started_at at time zone 'UTC')::date),
                  (
                      (
                          greatest(session.ended_at - interval '1 millisecond', session.started_at)
                          at time zone 'UTC'
                      )::date
                  )
       ) as touched (date);

-- How productive somebody finds time in a category; beats what the service says.
create table activity.category_score (
    user_id  uuid     not null,
    category text     not null,
    score    smallint not null,
    constraint category_score_pkey primary key (user_id, category),
    constraint category_score_name_is_short check (length(category) between 1 and 64),
    constraint category_score_is_one_of_five check (score between -2 and 2)
);

-- What somebody puts into which category: the first rule that matches, the smallest priority first.
create table activity.category_rule (
    user_id          uuid     not null,
    category_rule_id uuid     not null default gen_random_uuid(),
    priority         integer  not null,
    field            text     not null,
    match            text     not null,
    pattern          text     not null,
    category         text     not null,
    constraint category_rule_pkey primary key (user_id, category_rule_id),
    constraint category_rule_looks_at_a_known_field check (field in ('app', 'title', 'domain')),
    constraint category_rule_matches_in_a_known_way check (match in ('exact', 'contains', 'regex')),
    constraint category_rule_pattern_is_short check (length(pattern) between 1 and 255),
    constraint category_rule_category_is_short check (length(category) between 1 and 64),
    -- An expression that is none is an error here already, and not in every answer.
    constraint category_rule_expression_is_one check (
        match <> 'regex' or ('' ~* pattern) is not null
    )
);

-- What the service itself puts into which category; patterns are whole names in lower case.
create table reference.category_rule (
    field    text not null,
    pattern  text not null,
    category text not null,
    constraint category_rule_pkey primary key (field, pattern),
    constraint category_rule_is_of_a_category
        foreign key (category) references reference.category,
    constraint category_rule_looks_at_a_known_field check (field in ('app', 'domain')),
    constraint category_rule_pattern_is_in_lower_case check (pattern = lower(pattern))
);
