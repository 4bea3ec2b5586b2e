-- What is known of somebody's life beside their activity. One schema is one read scope: `health` is what
-- `read:health` opens, and so on.
--
-- Whatever a table takes, answers can show and add up: a time has a year of four digits, a duration is at
-- most 1e12 ms, and a measure has an order of magnitude that such a thing can have.

create schema code;

-- One thing that happened at a code host.
create table code.event (
    user_id       uuid           not null,
    event_id      uuid           not null default gen_random_uuid(),
    provider      text           not null,
    provider_key  text           not null,
    type          text           not null,
    action        text           not null,
    occurred_at   timestamptz(3) not null,
    repository    text           not null,
    is_private    boolean,
    title         text,
    url           text,
    ref           text,
    sha           text,
    number        integer,
    state         text,
    additions     integer,
    deletions     integer,
    changed_files integer,
    constraint event_pkey primary key (user_id, event_id),
    constraint event_is_known_once unique (user_id, provider, provider_key),
    constraint event_does_what_its_type_can check (
        type = 'commit' and action = 'pushed'
        or type = 'pull_request' and action in ('opened', 'merged', 'closed', 'reopened')
        or type = 'review' and action in ('approved', 'changes_requested', 'commented', 'dismissed')
    ),
    constraint event_year_has_four_digits check (
        occurred_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    ),
    constraint event_counts_up check (additions >= 0 and deletions >= 0 and changed_files >= 0)
);
create index event_by_time on code.event (user_id, occurred_at, event_id);

create schema health;

-- What measures: a watch, a phone, a belt. Where several measured the same, the smallest priority counts.
create table health.source (
    user_id   uuid     not null,
    source_id uuid     not null default gen_random_uuid(),
    provider  text     not null,
    name      text     not null,
    device    text,
    kind      text     not null default 'other',
    platform  text,
    priority  smallint not null default 100,
    constraint source_pkey primary key (user_id, source_id),
    constraint source_is_known_once unique nulls not distinct (user_id, provider, name, device),
    constraint source_is_of_a_known_kind check (kind in ('watch', 'phone', 'other'))
);

-- What is measured, in which unit, and whether measurements add up. Heart rate has a table of its own.
create table health.metric (
    user_id     uuid not null,
    metric_type text not null,
    unit        text not null,
    aggregation text not null,
    constraint metric_pkey primary key (user_id, metric_type),
    constraint metric_type_is_a_name check (metric_type ~ '^[a-z][a-z0-9_]{0,63}$'),
    constraint metric_adds_up_or_not check (aggregation in ('sum', 'avg')),
    constraint metric_is_no_heart_rate check (metric_type <> 'heart_rate'),
    constraint metric_that_is_known_to_add_up_does check (
        aggregation = 'sum'
        or metric_type not in (
            'steps',
            'distance_m',
            'floors',
            'active_energy_kj',
            'basal_energy_kj',
            'exercise_ms',
            'stand_ms',
            'water_ml',
            'sleep_ms'
        )
    )
);

create table health.sample (
    user_id        uuid             not null,
    sample_id      uuid             not null default gen_random_uuid(),
    metric_type    text             not null,
    source_id      uuid             not null,
    started_at     timestamptz(3)   not null,
    ended_at       timestamptz(3)   not null,
    value          double precision not null,
    utc_offset     text,
    is_daily_total boolean          not null default false,
    constraint sample_pkey primary key (user_id, sample_id),
    constraint sample_is_of_a_metric
        foreign key (user_id, metric_type) references health.metric on delete cascade,
    constraint sample_is_of_a_source
        foreign key (user_id, source_id) references health.source on delete cascade,
    constraint sample_ends_after_its_start check (ended_at >= started_at),
    constraint sample_lasts_two_days_at_most check (ended_at - started_at <= interval '48 hours'),
    constraint sample_year_has_four_digits check (
        least(started_at, ended_at) >= '0001-01-01 00:00:00+00'
        and greatest(started_at, ended_at) <= '9999-12-31 23:59:59.999+00'
    ),
    -- Many of these can be added up and averaged without leaving what a double can hold.
    constraint sample_is_of_a_size check (value = 0 or abs(value) between 1e-15 and 1e15)
);
create index sample_by_start on health.sample (user_id, metric_type, started_at, sample_id);

create table health.heart_rate (
    user_id         uuid           not null,
    heart_rate_id   uuid           not null default gen_random_uuid(),
    recorded_at     timestamptz(3) not null,
    bpm             smallint       not null,
    rr_intervals_ms integer[]      not null default '{}',
    contact         boolean,
    source_id       uuid,
    constraint heart_rate_pkey primary key (user_id, heart_rate_id),
    constraint heart_rate_is_of_a_source
        foreign key (user_id, source_id) references health.source on delete cascade,
    constraint heart_rate_year_has_four_digits check (
        recorded_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    ),
    constraint heart_rate_is_of_a_heart check (bpm between 1 and 400)
);
create index heart_rate_by_time on health.heart_rate (user_id, recorded_at, heart_rate_id);

-- One sleep; a nap is one that is not the main sleep of its day.
create table health.sleep (
    user_id                uuid             not null,
    sleep_id               uuid             not null default gen_random_uuid(),
    source_id              uuid             not null,
    started_at             timestamptz(3)   not null,
    ended_at               timestamptz(3)   not null,
    utc_offset             text             not null,
    is_nap                 boolean          not null default false,
    in_bed_ms              bigint           not null,
    asleep_ms              bigint           not null,
    awake_ms               bigint,
    light_ms               bigint,
    deep_ms                bigint,
    rem_ms                 bigint,
    no_data_ms             bigint,
    latency_ms             bigint,
    disturbance_count      integer,
    cycle_count            integer,
    efficiency_percent     double precision,
    performance_percent    double precision,
    consistency_percent    double precision,
    need_ms                bigint,
    debt_ms                bigint,
    respiratory_rate_bpm   double precision,
    average_heart_rate_bpm double precision,
    lowest_heart_rate_bpm  double precision,
    constraint sleep_pkey primary key (user_id, sleep_id),
    constraint sleep_is_of_a_source
        foreign key (user_id, source_id) references health.source on delete cascade,
    constraint sleep_ends_after_its_start check (ended_at > started_at),
    constraint sleep_year_has_four_digits check (
        least(started_at, ended_at) >= '0001-01-01 00:00:00+00'
        and greatest(started_at, ended_at) <= '9999-12-31 23:59:59.999+00'
    ),
    constraint sleep_offset_is_one check (utc_offset ~ '^[+-](0\d|1[0-8]):[0-5]\d$'),
    constraint sleep_takes_time check (
        least(
            in_bed_ms,
            asleep_ms,
            awake_ms,
            light_ms,
            deep_ms,
            rem_ms,
            no_data_ms,
            latency_ms,
            need_ms,
            debt_ms
        ) >= 0
        and greatest(
            in_bed_ms,
            asleep_ms,
            awake_ms,
            light_ms,
            deep_ms,
            rem_ms,
            no_data_ms,
            latency_ms,
            need_ms,
            debt_ms
        ) <= 1000000000000
    ),
    constraint sleep_rates_are_of_a_body check (
        respiratory_rate_bpm between 0 and 1000
        and average_heart_rate_bpm between 0 and 1000
        and lowest_heart_rate_bpm between 0 and 1000
    ),
    constraint sleep_counts_up check (disturbance_count >= 0 and cycle_count >= 0),
    constraint sleep_percentages_are_some check (
        efficiency_percent between 0 and 100
        and performance_percent between 0 and 100
        and consistency_percent between 0 and 100
    )
);
create index sleep_by_end on health.sleep (user_id, ended_at, sleep_id);

-- How well somebody was in the morning, as a provider scored it after a sleep.
create table health.recovery (
    user_id                uuid             not null,
    sleep_id               uuid             not null,
    state                  text             not null,
    score                  double precision,
    resting_heart_rate_bpm double precision,
    hrv_rmssd_ms           double precision,
    spo2_percent           double precision,
    skin_temperature_c     double precision,
    constraint recovery_pkey primary key (user_id, sleep_id),
    constraint recovery_is_after_a_sleep
        foreign key (user_id, sleep_id) references health.sleep on delete cascade,
    constraint recovery_state_is_a_known_one check (state in ('scored', 'pending', 'unscorable')),
    constraint recovery_measures_are_of_a_body check (
        resting_heart_rate_bpm between 0 and 1000
        and hrv_rmssd_ms between 0 and 100000
        and skin_temperature_c between -100 and 100
    ),
    constraint recovery_percentages_are_some check (
        score between 0 and 100 and spo2_percent between 0 and 100
    )
);

-- How much a day asked of somebody: the physiological day that began with a sleep.
create table health.cycle (
    user_id                uuid             not null,
    sleep_id               uuid             not null,
    started_at             timestamptz(3)   not null,
    ended_at               timestamptz(3),
    strain                 double precision,
    strain_scale_max       double precision,
    energy_kj              double precision,
    average_heart_rate_bpm double precision,
    max_heart_rate_bpm     double precision,
    constraint cycle_pkey primary key (user_id, sleep_id),
    constraint cycle_began_with_a_sleep
        foreign key (user_id, sleep_id) references health.sleep on delete cascade,
    constraint cycle_ends_after_its_start check (ended_at >= started_at),
    constraint cycle_year_has_four_digits check (
        least(started_at, ended_at) >= '0001-01-01 00:00:00+00'
        and greatest(started_at, ended_at) <= '9999-12-31 23:59:59.999+00'
    ),
    constraint cycle_measures_are_of_a_body check (
        strain between 0 and 1000000
        and strain_scale_max between 0 and 1000000
        and energy_kj between 0 and 1000000
        and average_heart_rate_bpm between 0 and 1000
        and max_heart_rate_bpm between 0 and 1000
    )
);

create schema music;

-- One play of a track; `listened_at` is when it began.
create table music.listen (
    user_id        uuid           not null,
    listen_id      uuid           not null default gen_random_uuid(),
    listened_at    timestamptz(3) not null,
    track          text           not null,
    artist         text           not null,
    artists        text[]         not null default '{}',
    album          text,
    played_ms      bigint,
    duration_ms    bigint,
    is_skipped     boolean,
    source         text           not null,
    spotify_uri    text,
    isrc           text,
    recording_mbid uuid,
    constraint listen_pkey primary key (user_id, listen_id),
    constraint listen_takes_time check (
        played_ms between 0 and 1000000000000 and duration_ms between 0 and 1000000000000
    ),
    constraint listen_year_has_four_digits check (
        listened_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    )
);
create index listen_by_time on music.listen (user_id, listened_at, listen_id);

create schema location;

-- What records places. Not a tracker of activity: who may read that learns nothing of these.
create table location.device (
    user_id   uuid not null,
    device_id uuid not null default gen_random_uuid(),
    name      text not null,
    platform  text,
    constraint device_pkey primary key (user_id, device_id),
    constraint device_name_is_unique unique (user_id, name)
);

create table location.point (
    user_id             uuid             not null,
    point_id            uuid             not null default gen_random_uuid(),
    device_id           uuid,
    recorded_at         timestamptz(3)   not null,
    latitude            double precision not null,
    longitude           double precision not null,
    accuracy_m          double precision,
    altitude_m          double precision,
    vertical_accuracy_m double precision,
    speed_mps           double precision,
    course_deg          double precision,
    battery_percent     smallint,
    activity            text,
    source              text             not null,
    constraint point_pkey primary key (user_id, point_id),
    constraint point_is_of_a_device
        foreign key (user_id, device_id) references location.device on delete cascade,
    constraint point_is_on_earth check (
        latitude between -90 and 90 and longitude between -180 and 180
    ),
    constraint point_year_has_four_digits check (
        recorded_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    ),
    constraint point_measures_are_of_something_on_earth check (
        accuracy_m between 0 and 100000000
        and altitude_m between -100000000 and 100000000
        and vertical_accuracy_m between 0 and 100000000
        and speed_mps between 0 and 1000000
        and course_deg between 0 and 360
    ),
    constraint point_battery_is_a_percentage check (battery_percent between 0 and 100)
);
create index point_by_time on location.point (user_id, recorded_at, point_id);

create table location.place (
    user_id      uuid             not null,
    place_id     uuid             not null default gen_random_uuid(),
    name         text             not null,
    category     text,
    latitude     double precision,
    longitude    double precision,
    address      text,
    city         text,
    country_code text,
    constraint place_pkey primary key (user_id, place_id),
    constraint place_is_on_earth check (
        latitude between -90 and 90 and longitude between -180 and 180
    ),
    constraint place_country_is_a_code check (country_code ~ '^[A-Z]{2}$')
);

-- A check-in at a place, or a visit to one, which may be a guess until somebody confirms it.
create table location.event (
    user_id    uuid           not null,
    event_id   uuid           not null default gen_random_uuid(),
    type       text           not null,
    status     text           not null,
    started_at timestamptz(3) not null,
    ended_at   timestamptz(3),
    utc_offset text,
    place_id   uuid           not null,
    note       text,
    source     text           not null,
    constraint event_pkey primary key (user_id, event_id),
    constraint event_is_at_a_place
        foreign key (user_id, place_id) references location.place on delete cascade,
    constraint event_ends_after_its_start check (ended_at >= started_at),
    constraint event_year_has_four_digits check (
        least(started_at, ended_at) >= '0001-01-01 00:00:00+00'
        and greatest(started_at, ended_at) <= '9999-12-31 23:59:59.999+00'
    ),
    constraint event_type_is_a_known_one check (type in ('check_in', 'visit')),
    constraint event_status_is_a_known_one check (status in ('suggested', 'confirmed', 'declined')),
    constraint event_check_in_is_confirmed check (type <> 'check_in' or status = 'confirmed')
);
create index event_by_start on location.event (user_id, started_at, event_id);
-- Few visits are longer than a day; this one finds those that reach into a range from long before.
create index event_of_days_by_end on location.event (user_id, ended_at)
    where ended_at - started_at > interval '24 hours';

create schema content;

create table content.insight (
    user_id      uuid           not null,
    insight_id   uuid           not null default gen_random_uuid(),
    week_start   date           not null,
    week_end     date           not null,
    tz           text           not null,
    title        text           not null,
    summary      text           not null,
    highlights   json           not null default '[]',
    model        text,
    generated_at timestamptz(3) not null,
    constraint insight_pkey primary key (user_id, insight_id),
    constraint insight_week_ends_after_its_start check (week_end >= week_start),
    constraint insight_year_has_four_digits check (
        least(week_start, week_end) >= '0001-01-01'
        and greatest(week_start, week_end) <= '9999-12-31'
        and generated_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    ),
    constraint insight_highlights_are_a_list check (json_typeof(highlights) = 'array')
);
create index insight_by_week on content.insight (user_id, week_start, insight_id);

create table content.recording (
    user_id             uuid           not null,
    recording_id        uuid           not null default gen_random_uuid(),
    recorded_at         timestamptz(3) not null,
    duration_ms         bigint         not null,
    title               text,
    language            text,
    source              text           not null,
    transcript_status   text           not null default 'none',
    transcript          text,
    transcript_segments json           not null default '[]',
    constraint recording_pkey primary key (user_id, recording_id),
    constraint recording_takes_time check (duration_ms between 0 and 1000000000000),
    constraint recording_year_has_four_digits check (
        recorded_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    ),
    constraint recording_transcript_segments_are_a_list check (
        json_typeof(transcript_segments) = 'array'
    ),
    constraint recording_transcript_status_is_a_known_one check (
        transcript_status in ('ready', 'pending', 'failed', 'none')
    )
);
create index recording_by_time on content.recording (user_id, recorded_at, recording_id);

-- A film or a show; a play of an episode is a play of its show.
create table content.title (
    user_id  uuid not null,
    title_id uuid not null default gen_random_uuid(),
    kind     text not null,
    name     text not null,
    constraint title_pkey primary key (user_id, title_id),
    constraint title_is_of_a_known_kind check (kind in ('movie', 'show'))
);

create table content.title_genre (
    user_id  uuid not null,
    title_id uuid not null,
    genre    text not null,
    constraint title_genre_pkey primary key (user_id, title_id, genre),
    constraint title_genre_is_of_a_title
        foreign key (user_id, title_id) references content.title on delete cascade
);

create table content.play (
    user_id    uuid           not null,
    play_id    uuid           not null default gen_random_uuid(),
    title_id   uuid           not null,
    season     smallint,
    episode    smallint,
    watched_at timestamptz(3) not null,
    watch_ms   bigint         not null,
    source     text,
    constraint play_pkey primary key (user_id, play_id),
    constraint play_is_of_a_title
        foreign key (user_id, title_id) references content.title on delete cascade,
    constraint play_takes_time check (watch_ms between 0 and 1000000000000),
    constraint play_year_has_four_digits check (
        watched_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    )
);
create index play_by_time on content.play (user_id, watched_at, play_id);

create table content.calendar (
    user_id     uuid not null,
    calendar_id uuid not null default gen_random_uuid(),
    name        text not null,
    provider    text not null,
    timezone    text not null default 'UTC',
    constraint calendar_pkey primary key (user_id, calendar_id)
);

-- An event of a calendar. One that lasts whole days has dates, the last of them excluded, and its instants
-- are local midnights in the calendar's zone.
create table content.calendar_event (
    user_id           uuid           not null,
    calendar_event_id uuid           not null default gen_random_uuid(),
    calendar_id       uuid           not null,
    title             text,
    description       text,
    location          text,
    starts_at         timestamptz(3) not null,
    ends_at           timestamptz(3) not null,
    start_date        date,
    end_date          date,
    timezone          text,
    status            text           not null,
    response          text,
    organizer_name    text,
    organizer_is_self boolean        not null default false,
    attendee_count    integer        not null default 0,
    series_id         text,
    conference_url    text,
    updated_at        timestamptz(3),
    constraint calendar_event_pkey primary key (user_id, calendar_event_id),
    constraint calendar_event_is_in_a_calendar
        foreign key (user_id, calendar_id) references content.calendar on delete cascade,
    constraint calendar_event_ends_after_its_start check (ends_at >= starts_at),
    constraint calendar_event_year_has_four_digits check (
        least(starts_at, ends_at, updated_at) >= '0001-01-01 00:00:00+00'
        and greatest(starts_at, ends_at, updated_at) <= '9999-12-31 23:59:59.999+00'
        and least(start_date, end_date) >= '0001-01-01'
        and greatest(start_date, end_date) <= '9999-12-31'
    ),
    constraint calendar_event_has_attendees_or_none check (attendee_count >= 0),
    constraint calendar_event_lasts_whole_days_or_has_no_dates check (
        (start_date is null) = (end_date is null)
    ),
    constraint calendar_event_status_is_a_known_one check (
        status in ('confirmed', 'tentative', 'cancelled')
    ),
    constraint calendar_event_response_is_a_known_one check (
        response in ('accepted', 'declined', 'tentative', 'needs_action')
    )
);
create index calendar_event_by_start
    on content.calendar_event (user_id, starts_at, calendar_event_id);
-- Few events are longer than a day; this one finds those that reach into a range from long before.
create index calendar_event_of_days_by_end on content.calendar_event (user_id, ends_at)
    where ends_at - starts_at > interval '24 hours';

create schema profile;

create table profile.integration (
    user_id      uuid           not null,
    provider     text           not null,
    kind         text           not null,
    status       text           not null,
    connected_at timestamptz(3),
    last_sync_at timestamptz(3),
    last_error   text,
    constraint integration_pkey primary key (user_id, provider),
    constraint integration_year_has_four_digits check (
        least(connected_at, last_sync_at) >= '0001-01-01 00:00:00+00'
        and greatest(connected_at, last_sync_at) <= '9999-12-31 23:59:59.999+00'
    ),
    constraint integration_status_is_a_known_one check (
        status in ('active', 'error', 'expired', 'disconnected')
    ),
    constraint integration_last_error_is_a_code check (last_error ~ '^[a-z][a-z0-9_]{0,63}$')
);

-- What opens an account at a provider. Nobody who answers requests may read it.
create table profile.integration_credential (
    user_id    uuid        not null,
    provider   text        not null,
    secret     bytea       not null,
    renewed_at timestamptz not null default now(),
    constraint integration_credential_pkey primary key (user_id, provider),
    constraint integration_credential_year_has_four_digits check (
        renewed_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    ),
    constraint integration_credential_is_of_an_integration
        foreign key (user_id, provider) references profile.integration on delete cascade
);

create table profile.organization (
    organization_id uuid        not null default gen_random_uuid(),
    name            text        not null,
    slug            text        not null,
    created_at      timestamptz not null default now(),
    constraint organization_pkey primary key (organization_id),
    constraint organization_slug_is_unique unique (slug),
    constraint organization_slug_is_one check (slug ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
    constraint organization_name_is_short check (length(name) between 1 and 200)
);

create table profile.team (
    organization_id uuid        not null,
    team_id         uuid        not null default gen_random_uuid(),
    name            text        not null,
    created_at      timestamptz not null default now(),
    constraint team_pkey primary key (team_id),
    constraint team_is_of_an_organization
        foreign key (organization_id) references profile.organization on delete cascade,
    constraint team_name_is_unique_in_its_organization unique (organization_id, name),
    constraint team_name_is_short check (length(name) between 1 and 200)
);

create table profile.membership (
    user_id         uuid           not null,
    organization_id uuid           not null,
    role            text           not null,
    joined_at       timestamptz(3) not null default now(),
    constraint membership_pkey primary key (user_id, organization_id),
    constraint membership_is_of_an_organization
        foreign key (organization_id) references profile.organization on delete cascade,
    constraint membership_year_has_four_digits check (
        joined_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    ),
    constraint membership_role_is_a_known_one check (role in ('owner', 'admin', 'member'))
);

create table profile.team_membership (
    user_id   uuid           not null,
    team_id   uuid           not null,
    role      text           not null,
    joined_at timestamptz(3) not null default now(),
    constraint team_membership_pkey primary key (user_id, team_id),
    constraint team_membership_is_of_a_team
        foreign key (team_id) references profile.team on delete cascade,
    constraint team_membership_year_has_four_digits check (
        joined_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    ),
    constraint team_membership_role_is_a_known_one check (role in ('lead', 'member'))
);

-- What somebody pays. Who has no row here runs the service themselves.
create table profile.subscription (
    user_id              uuid           not null,
    plan                 text           not null,
    status               text           not null,
    billing              text           not null,
    interval             text,
    current_period_start timestamptz(3),
    current_period_end   timestamptz(3),
    cancel_at_period_end boolean        not null default false,
    trial_ends_at        timestamptz(3),
    seats                integer        not null default 1,
    constraint subscription_pkey primary key (user_id),
    constraint subscription_status_is_a_known_one check (
        status in ('active', 'trialing', 'past_due', 'canceled', 'none')
    ),
    constraint subscription_year_has_four_digits check (
        least(current_period_start, current_period_end, trial_ends_at) >= '0001-01-01 00:00:00+00'
        and greatest(current_period_start, current_period_end, trial_ends_at) <= '9999-12-31 23:59:59.999+00'
    ),
    constraint subscription_has_a_seat check (seats >= 1)
);
