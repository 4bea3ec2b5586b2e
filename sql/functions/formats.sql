-- The formats of values in answers, and the beginnings of days. None of these functions reads a table.

-- An instant in the form of every answer: 2025-06-16T09:00:00.123Z.
create or replace function svc.instant(p_at timestamptz)
returns text
language sql
stable
parallel safe
return to_char(p_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');

-- The length of an interval in whole milliseconds.
create or replace function svc.duration_ms(p_duration interval)
returns bigint
language sql
immutable
parallel safe
return (extract(epoch from p_duration) * 1000)::bigint;

-- The cursor of a list: the last row's time and id, in characters that need no escaping in an address.
create or replace function svc.cursor(p_at timestamptz, p_id uuid)
returns text
language sql
immutable
parallel safe
return translate(
    encode(convert_to((extract(epoch from p_at) * 1000)::bigint || ',' || p_id, 'UTF8'), 'base64'),
    E'+/=\n',
    '-_'
);

-- Whether `p_text` matches a category rule's pattern, ignoring case.
create or replace function svc.matches(p_text text, p_match text, p_pattern text)
returns boolean
language sql
immutable
parallel safe
return case p_match
    when 'exact' then lower(p_text) = lower(p_pattern)
    when 'contains' then strpos(lower(p_text), lower(p_pattern)) > 0
    when 'regex' then p_text ~* p_pattern
end;

-- A part of a whole in per cent with two decimals; null if the whole is 0.
create or replace function svc.percent(p_part bigint, p_whole bigint)
returns numeric
language sql
immutable
parallel safe
return round(100.0 * p_part / nullif(p_whole, 0), 2);

-- A measure with at most two decimals, without zeros at the end.
create or replace function svc.rounded(p_measure double precision)
returns numeric
language sql
immutable
parallel safe
return trim_scale(round(p_measure::numeric, 2));

-- A latitude or a longitude to the centimetre. Most have no more digits than that, and a decimal number would be slow:
-- a double that equals a quotient of this form is the nearest to seven decimals. Adding zero makes -0 positive.
create or replace function svc.degrees(p_degrees double precision)
returns double precision
language sql
immutable
parallel safe
return case
           when round(p_degrees * 1e7) / 1e7 = p_degrees then p_degrees + 0
           else round(p_degrees::numeric, 7)::double precision
       end;

-- The distance between two places in degrees (svc.degrees): a great circle on a sphere of the earth's mean radius.
-- The square of a smaller angle would underflow a double.
create or replace function svc.distance_m(
    p_latitude        double precision,
    p_longitude       double precision,
    p_other_latitude  double precision,
    p_other_longitude double precision
)
returns double precision
language sql
immutable
parallel safe
return 2 * 6371008.8 * asin(least(1, sqrt(
    power(sind((p_latitude - p_other_latitude) / 2), 2)
    + cosd(p_latitude) * cosd(p_other_latitude)
    * power(sind((p_longitude - p_other_longitude) / 2), 2)
)));

-- The productivity that a category's score stands for.
create or replace function svc.productivity(p_score integer)
returns text
language sql
immutable
parallel safe
return case when p_score >= 1 then 'productive' when p_score <= -1 then 'distracting' else 'neutral' end;

-- The first instant whose local date is `p_date` in the zone, or, for a date that the zone skipped,
-- the instant at which it was skipped. Local midnight does not work: some days have none and some have
-- two. If the offset is the same on both sides, the answer is simple; otherwise each minute between the
-- two candidates is checked, or each second if clocks differed from UTC by odd seconds.
create or replace function svc.day_start(p_date date, p_zone text)
returns timestamptz
language plpgsql
stable
parallel safe
as $$
declare
    midnight constant timestamptz := p_date::timestamp at time zone 'UTC';
    before   constant interval := (midnight - interval '36 hours') at time zone p_zone
                                - (midnight - interval '36 hours') at time zone 'UTC';
    after    constant interval := (midnight + interval '36 hours') at time zone p_zone
                                - (midnight + interval '36 hours') at time zone 'UTC';
    step     constant interval := case
                                      when extract(second from before) = 0
                                           and extract(second from after) = 0
                                      then interval '1 minute'
                                      else interval '1 second'
                                  end;
begin
    if before = after then
        return midnight - before;
    end if;
    return coalesce(
        (
            select min(candidate)
              from generate_series(
                       midnight - greatest(before, after),
                       midnight - least(before, after),
                       step
                   ) as candidate
             where (candidate at time zone p_zone)::date = p_date
        ),
        (
            select min(candidate)
              from generate_series(
                       midnight - greatest(before, after),
                       midnight - least(before, after),
                       step
                   ) as candidate
             where (candidate at time zone p_zone)::date > p_date
        )
    );
end
$$;

-- Calendar days, each from its first instant to that of the next, numbered from 1. Together they cover all
-- time between the first and the last; one that the zone skipped has no length.
create or replace function svc.days(p_from date, p_to date, p_zone text)
returns table (n integer, date date, starts_at timestamptz, ends_at timestamptz)
language sql
stable
parallel safe
begin atomic
    select start.n,
           start.date,
           start.at,
           start.next_at
      from (
               select day.n,
                      p_from + day.n - 1 as date,
                      edge.at,
                      lead(edge.at) over (order by day.n) as next_at
                 from generate_series(1, p_to - p_from + 2) as day (n)
                cross join lateral svc.day_start(p_from + day.n - 1, p_zone) as edge (at)
           ) as start
     where start.next_at is not null;
end;

-- The hours of calendar days, numbered from 1 in order of time. One hour is all instants that share local
-- date, local hour and offset; so a day on which clocks change has more or fewer than 24, or a short one,
-- and a day that the zone skipped has none.
--
-- Clocks keep their offset for at least an hour. If it differs between two full hours in UTC, the second of the
-- change is searched between them; between changes, hours follow from the offset.
create or replace function svc.hours(p_from date, p_to date, p_zone text)
returns table (
    n          integer,
    date       date,
    hour       integer,
    utc_offset text,
    starts_at  timestamptz,
    ends_at    timestamptz
)
language sql
stable
parallel safe
begin atomic
    with sample as (
        select full_hour.at,
               (full_hour.at at time zone p_zone) - (full_hour.at at time zone 'UTC') as utc_offset
          from generate_series(
                   (p_from - 1)::timestamp at time zone 'UTC',
                   (p_to + 2)::timestamp at time zone 'UTC',
                   interval '1 hour'
               ) as full_hour (at)
    ),
    change as (
        select compared.at,
               compared.at_before,
               compared.utc_offset
          from (
                   select sample.at,
                          sample.utc_offset,
                          -- Changes before the first hour do not matter.
                          lag(sample.at, 1, sample.at) over (order by sample.at) as at_before,
                          lag(sample.utc_offset) over (order by sample.at) as offset_before
                     from sample
               ) as compared
         where compared.utc_offset is distinct from compared.offset_before
    ),
    period as (
        select change.utc_offset,
               second.at as starts_at,
               lead(second.at, 1, (p_to + 2)::timestamp at time zone 'UTC')
                   over (order by second.at) as ends_at
          from change
         cross join lateral (
                   select min(candidate.at) as at
                     from generate_series(
                              change.at_before,
                              change.at,
                              interval '1 second'
                          ) as candidate (at)
                    where (candidate.at at time zone p_zone) - (candidate.at at time zone 'UTC')
                          = change.utc_offset
               ) as second
    ),
    local_hour as (
        select period.utc_offset,
               local.at,
               greatest(period.starts_at, (local.at - period.utc_offset) at time zone 'UTC') as starts_at,
               least(
                   period.ends_at,
                   (local.at - period.utc_offset + interval '1 hour') at time zone 'UTC'
               ) as ends_at
          from period
         cross join lateral generate_series(
                   date_trunc('hour', (period.starts_at at time zone 'UTC') + period.utc_offset),
                   (period.ends_at at time zone 'UTC') + period.utc_offset,
                   interval '1 hour'
               ) as local (at)
    )
    select row_number() over (order by local_hour.starts_at)::integer,
           local_hour.at::date,
           extract(hour from local_hour.at)::integer,
           -- Long ago clocks differed from UTC by odd seconds.
           case when local_hour.utc_offset < interval '0' then '-' else '+' end
               || to_char(
                      greatest(local_hour.utc_offset, -local_hour.utc_offset),
                      case extract(second from local_hour.utc_offset)
                          when 0 then 'HH24:MI'
                          else 'HH24:MI:SS'
                      end
                  ),
           local_hour.starts_at,
           local_hour.ends_at
      from local_hour
     where local_hour.at::date between p_from and p_to
       and local_hour.starts_at < local_hour.ends_at;
end;

-- Cuts each bucket of time into few spans, in order. A span of grain 0 is left to raw
-- sessions. One of another grain is a run of whole slots for which there are rollups: quarters of an hour
-- (1), hours (2), days (3) or months (4), all of UTC. Raw are the days of `p_raw_days`, which come in order,
-- and what lies between the edge of a bucket and the next quarter. Buckets are in order of time and do not
-- overlap; one without length has no spans. `position` is the bucket's, from 1.
--
--     bucket   |-----------------------------------------------------------|
--     spans     raw  quarters  hours  days  months  days  hours  quarters  raw
create or replace function svc.cover(
    p_starts   timestamptz[],
    p_ends     timestamptz[],
    p_raw_days date[]
)
returns table (
    "position" integer,
    is_first   boolean,
    grain      smallint,
    starts_at  timestamptz,
    ends_at    timestamptz
)
language plpgsql
immutable
parallel safe
as $$
declare
    quarter constant interval := '15 minutes';
    hour    constant interval := '1 hour';
    day     constant interval := '24 hours';
    origin  constant timestamptz := '2000-01-01 00:00:00+00';
    n_raw   integer := 0;
    raw_at  timestamptz := '-infinity';
    at      timestamptz;
    upto    timestamptz;
    next_at timestamptz;
    month   timestamp;
    chosen   smallint;
begin
    for i in 1 .. coalesce(cardinality(p_starts), 0) loop
        position := i;
        grain := null;
        at := p_starts[i];
        while at < p_ends[i] loop
            while raw_at + day <= at loop
                n_raw := n_raw + 1;
                raw_at := coalesce(p_raw_days[n_raw]::timestamp at time zone 'UTC', 'infinity');
            end loop;
            -- Until then no day is raw, so parts that begin and end here have rollups.
            upto := least(p_ends[i], raw_at);
            if at >= raw_at then
                chosen := 0;
                upto := least(p_ends[i], raw_at + day);
            elsif at = date_bin(hour, at, origin) and at + hour <= upto then
                month := date_trunc('month', at at time zone 'UTC');
                next_at := (month + interval '1 month') at time zone 'UTC';
                if at = month at time zone 'UTC' and next_at <= upto then
                    chosen := 4;
                    upto := date_trunc('month', upto at time zone 'UTC') at time zone 'UTC';
                elsif at = date_bin(day, at, origin) and at + day <= upto then
                    chosen := 3;
                    month := month + interval '2 months';
                    upto := case
                        when month at time zone 'UTC' <= upto then next_at
                        else date_bin(day, upto, origin)
                    end;
                else
                    chosen := 2;
                    next_at := date_bin(day, at, origin) + day;
                    upto := case
                        when next_at + day <= upto then next_at
                        else date_bin(hour, upto, origin)
                    end;
                end if;
            elsif at = date_bin(quarter, at, origin) and at + quarter <= upto then
                chosen := 1;
                next_at := date_bin(hour, at, origin) + hour;
                upto := case
                    when next_at + hour <= upto then next_at
                    else date_bin(quarter, upto, origin)
                end;
            else
                chosen := 0;
                next_at := date_bin(quarter, at, origin) + quarter;
                upto := case when next_at + quarter <= upto then next_at else upto end;
            end if;
            -- Adjacent raw spans are joined.
            if chosen is distinct from grain then
                if grain is not null then
                    return next;
                end if;
                grain := chosen;
                starts_at := at;
                is_first := at = p_starts[i];
            end if;
            ends_at := upto;
            at := upto;
        end loop;
        if grain is not null then
            return next;
        end if;
    end loop;
end
$$;

-- The owners of time: given the starts and ends of sessions ordered by start (and, among equal starts,
-- with the owner last), returns the segments in which each is the latest started
-- one that is still running. `n` is the session's position, from 1. Segments do not overlap, are in
-- order of time, and together cover exactly what the sessions cover.
--
-- One sweep with a stack. The stack has the sessions that may still own time, the current owner on top, each
-- ending later than the one above it; so a session is pushed once and popped once, however deep the
-- overlaps are. The same in plain SQL joins every session with all that started within it, which is
-- quadratic for a day-long session above thousands of short ones.
create or replace function svc.owned_segments(p_starts timestamptz[], p_ends timestamptz[])
returns table (n integer, starts_at timestamptz, ends_at timestamptz)
language plpgsql
immutable
parallel safe
as $$
declare
    stack  integer[] := '{}';
    height integer := 0;
    clock  timestamptz := '-infinity';
    upto   timestamptz;
begin
    for i in 1 .. coalesce(cardinality(p_starts), 0) + 1 loop
        -- A session without length owns nothing, and cuts no segment in two.
        continue when p_ends[i] <= p_starts[i];
        upto := case when i <= cardinality(p_starts) then p_starts[i] else 'infinity' end;
        while height > 0 and clock < upto loop
            n := stack[height];
            starts_at := clock;
            ends_at := least(p_ends[n], upto);
            if ends_at > starts_at then
                return next;
                clock := ends_at;
            end if;
            exit when p_ends[n] > upto;
            height := height - 1;
        end loop;
        exit when i > cardinality(p_starts);
        while height > 0 and p_ends[stack[height]] <= p_ends[i] loop
            height := height - 1;
        end loop;
        height := height + 1;
        stack[height] := i;
        clock := upto;
    end loop;
end
$$;

-- The time that sessions own in spans: given sessions as for svc.owned_segments, and spans in order of time that do
-- not overlap, both numbered from 1, returns for each span every session that counts in it: whether it starts there,
-- for how long it owns the time, and the start of the first and the end of the last segment in which it does.
create or replace function svc.owned_parts(
    p_starts      timestamptz[],
    p_ends        timestamptz[],
    p_span_starts timestamptz[],
    p_span_ends   timestamptz[]
)
returns table (
    n         integer,
    span      integer,
    is_start  boolean,
    owned_ms  bigint,
    first_at  timestamptz,
    last_at   timestamptz
)
language sql
immutable
parallel safe
begin atomic
    select piece.n,
           piece.span,
           bool_or(piece.is_session and piece.starts_at >= p_span_starts[piece.span]),
           coalesce(
               svc.duration_ms(
                   sum(
                       least(piece.ends_at, p_span_ends[piece.span])
                       - greatest(piece.starts_at, p_span_starts[piece.span])
                   ) filter (where not piece.is_session)
               ),
               0
           ),
           min(greatest(piece.starts_at, p_span_starts[piece.span])) filter (where not piece.is_session),
           max(least(piece.ends_at, p_span_ends[piece.span])) filter (where not piece.is_session)
      from (
               -- A binary search finds the spans that overlap a session or a segment, so that the cost
               -- never grows with the product of both.
               select owner.n,
                      owner.starts_at,
                      owner.ends_at,
                      owner.is_session,
                      generate_series(
                          greatest(width_bucket(owner.starts_at, p_span_starts), 1),
                          width_bucket(owner.ends_at, p_span_starts)
                      ) as span
                 from (
                          select session.n::integer as n,
                                 session.starts_at,
                                 session.ends_at,
                                 true as is_session
                            from unnest(p_starts, p_ends) with ordinality
                                     as session (starts_at, ends_at, n)
                           union all
                          select segment.n,
                                 segment.starts_at,
                                 segment.ends_at,
                                 false
                            from svc.owned_segments(p_starts, p_ends) as segment
                      ) as owner
           ) as piece
     where piece.starts_at < p_span_ends[piece.span]
       and (
               piece.ends_at > p_span_starts[piece.span]
               or piece.starts_at >= p_span_starts[piece.span]
           )
     group by piece.n,
              piece.span;
end;

-- The streaks of focus among owned segments. These are given in order of time, with their edges in milliseconds since
-- any instant and the score of each one's category. Positions count segments from 1.
--
--                     productive                        productive: both counters to 0
--                    ------------>             <---------------------------------------.
--     no streak                     a streak                                            |
--                    <------------             ---------------------------------------'
--        more than 5 min of nothing: idle, or
--        30 s of distracting time: distraction, or        else: its counter grows
--        more than 2 min of neutral time: neutral
--
-- A streak ends with its last productive segment and is returned if it is ten minutes long. `reason` and
-- `breaker_position` say what broke it: the segment after the pause, or the one that exceeded the limit. Both are
-- null for a streak that is not broken.
create or replace function svc.focus_streaks(p_starts bigint[], p_ends bigint[], p_scores integer[])
returns table (
    first_position   integer,
    last_position    integer,
    reason           text,
    breaker_position integer
)
language plpgsql
immutable
parallel safe
as $$
declare
    min_streak_ms        constant bigint := 600000;
    idle_gap_ms          constant bigint := 300000;
    distraction_ms       constant bigint := 30000;
    neutral_tolerance_ms constant bigint := 120000;
    is_open    boolean := false;
    distracted bigint;
    neutral    bigint;
begin
    for i in 1 .. coalesce(cardinality(p_starts), 0) loop
        if is_open then
            if p_starts[i] - p_ends[i - 1] > idle_gap_ms then
                reason := 'idle';
            elsif p_scores[i] >= 1 then
                last_position := i;
                continue;
            else
                -- Counters restart after productive time; there are fewer segments like this one.
                if last_position = i - 1 then
                    distracted := 0;
                    neutral := 0;
                end if;
                if p_scores[i] = 0 then
                    neutral := neutral + (p_ends[i] - p_starts[i]);
                    continue when neutral <= neutral_tolerance_ms;
                    reason := 'neutral';
                else
                    distracted := distracted + (p_ends[i] - p_starts[i]);
                    continue when distracted < distraction_ms;
                    reason := 'distraction';
                end if;
            end if;
            is_open := false;
            if p_ends[last_position] - p_starts[first_position] >= min_streak_ms then
                breaker_position := i;
                return next;
            end if;
        end if;
        continue when p_scores[i] < 1;
        is_open := true;
        first_position := i;
        last_position := i;
    end loop;
    if is_open and p_ends[last_position] - p_starts[first_position] >= min_streak_ms then
        reason := null;
        breaker_position := null;
        return next;
    end if;
end
$$;

-- The switches from one application to another: given owned segments in order of time, their edges in
-- milliseconds since any instant, and the application of each, returns for every switch the
-- positions, counted from 1, of the segment with which the new run begins and of the longest segments of the
-- run before and of the new one, of several the first; and for how long the run before owned the time.
--
-- A spell is a row of segments of one application without segments of others or more than five minutes of nothing
-- between them. A run is the same of spells, without those of less than a second, which are ignored as glances. Two
-- runs of different applications make a switch unless more than five minutes are between them. The new run's longest
-- segment is known only at its end, so a switch is returned then.
--
--     segment --(its spell ends)--> spell --(it is not a glance)--> run --(the next run begins)--> switch
create or replace function svc.switches(p_starts bigint[], p_ends bigint[], p_apps integer[])
returns table (
    at_position   integer,
    from_position integer,
    to_position   integer,
    before_ms     bigint
)
language plpgsql
immutable
parallel safe
as $$
declare
    max_gap_ms     constant bigint := 300000;
    min_session_ms constant bigint := 1000;
    length         bigint;
    spell_app      integer;
    spell_first    integer;
    spell_longest  integer;
    spell_length   bigint;
    spell_own      bigint;
    spell_end      bigint;
    run_app        integer;
    run_longest    integer;
    run_length     bigint;
    run_own        bigint;
    run_end        bigint;
    is_switch      boolean := false;
begin
    -- One step more than there are segments: no segment continues a spell then, so the last one ends.
    for i in 1 .. coalesce(cardinality(p_starts), 0) + 1 loop
        if p_apps[i] = spell_app and p_starts[i] - spell_end <= max_gap_ms then
            length := p_ends[i] - p_starts[i];
            spell_own := spell_own + length;
            spell_end := p_ends[i];
            if length > spell_length then
                spell_length := length;
                spell_longest := i;
            end if;
            continue;
        end if;
        if spell_own >= min_session_ms then
            if spell_app = run_app and p_starts[spell_first] - run_end <= max_gap_ms then
                run_own := run_own + spell_own;
                if spell_length > run_length then
                    run_length := spell_length;
                    run_longest := spell_longest;
                end if;
            else
                if is_switch then
                    to_position := run_longest;
                    return next;
                end if;
                is_switch := spell_app <> run_app and p_starts[spell_first] - run_end <= max_gap_ms;
                at_position := spell_first;
                from_position := run_longest;
                before_ms := run_own;
                run_app := spell_app;
                run_longest := spell_longest;
                run_length := spell_length;
                run_own := spell_own;
            end if;
            run_end := spell_end;
        end if;
        spell_app := p_apps[i];
        spell_first := i;
        spell_longest := i;
        spell_own := p_ends[i] - p_starts[i];
        spell_length := spell_own;
        spell_end := p_ends[i];
    end loop;
    if is_switch then
        to_position := run_longest;
        return next;
    end if;
end
$$;
