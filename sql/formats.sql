-- How values look in answers, and where days begin. None of these functions reads a table.

-- An instant as every answer shows it: 2025-06-16T09:00:00.123Z.
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

-- Where a list goes on: the last row's time and id, in letters that need no escaping in an address.
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

-- Whether a category rule's pattern is found in `p_text`. Case counts for nothing.
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

-- A part of a whole in per cent with two decimals; null where the whole is nothing.
create or replace function svc.percent(p_part bigint, p_whole bigint)
returns numeric
language sql
immutable
parallel safe
return round(100.0 * p_part / nullif(p_whole, 0), 2);

-- A measure with two decimals at most, and none that are nothing.
create or replace function svc.rounded(p_measure double precision)
returns numeric
language sql
immutable
parallel safe
return trim_scale(round(p_measure::numeric, 2));

-- What a category's score says about time spent in it.
create or replace function svc.productivity(p_score integer)
returns text
language sql
immutable
parallel safe
return case when p_score >= 1 then 'productive' when p_score <= -1 then 'distracting' else 'neutral' end;

-- The first instant whose local date is `p_date` in the zone, or, for a date that the zone skipped,
-- the instant at which it was skipped. Local midnight will not do: some days have none and some have
-- two. Where the offset is the same on both sides the answer is plain; else the minutes between the
-- two candidates are looked through, or the seconds, where clocks differed from UTC by odd seconds.
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

-- Calendar days, each from its first instant to the next one's, numbered from 1. Together they cover all
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
-- Clocks keep their offset for at least an hour. Where it differs between two full hours in UTC, the second
-- of the change is looked for between them; between changes, hours are plain to tell.
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
               compared.utc_offset
          from (
                   select sample.at,
                          sample.utc_offset,
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
                              change.at - interval '1 hour',
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

-- Who owns the time: given the starts and ends of sessions ordered by start (and, among equal starts,
-- with the one that shall own the time last), returns the segments in which each is the latest started
-- one that is still running. `n` is the session's position, from 1. Segments do not overlap, are in
-- order of time, and together cover exactly what the sessions cover.
--
-- One sweep with a stack. On it lie the sessions that may own time yet, the present owner on top, each
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
        -- What has no length owns nothing, and cuts nobody's segment in two.
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

-- Where somebody worked without losing the thread: given owned segments in order of time, and what each
-- one's category scores, returns the streaks of focus among them. Positions count segments from 1.
--
--                     productive                        productive: both counters to 0
--                    ------------>             <---------------------------------------.
--     no streak                     a streak                                            |
--                    <------------             ---------------------------------------'
--        more than 5 min of nothing: idle, or
--        30 s of distracting time: distraction, or        else: its counter grows
--        more than 2 min of neutral time: neutral
--
-- A streak ends with its last productive segment and is told of if it is ten minutes long. One that
-- nothing has broken has no reason; it is then as `broken_at` the end of the last segment of all.
create or replace function svc.focus_streaks(
    p_starts timestamptz[],
    p_ends   timestamptz[],
    p_scores integer[]
)
returns table (
    first_position   integer,
    last_position    integer,
    started_at       timestamptz,
    ended_at         timestamptz,
    productive       interval,
    reason           text,
    broken_at        timestamptz,
    breaker_position integer,
    gap              interval
)
language plpgsql
immutable
parallel safe
as $$
declare
    min_streak        constant interval := '10 minutes';
    idle_gap          constant interval := '5 minutes';
    distraction       constant interval := '30 seconds';
    neutral_tolerance constant interval := '2 minutes';
    is_open    boolean := false;
    distracted interval;
    neutral    interval;
begin
    for i in 1 .. coalesce(cardinality(p_starts), 0) loop
        if is_open then
            if p_starts[i] - p_ends[i - 1] > idle_gap then
                reason := 'idle';
                broken_at := p_ends[i - 1];
                gap := p_starts[i] - p_ends[i - 1];
                is_open := false;
            elsif p_scores[i] <= -1 then
                distracted := distracted + (p_ends[i] - p_starts[i]);
                if distracted >= distraction then
                    reason := 'distraction';
                    broken_at := p_starts[i];
                    breaker_position := i;
                    is_open := false;
                end if;
            elsif p_scores[i] = 0 then
                neutral := neutral + (p_ends[i] - p_starts[i]);
                if neutral > neutral_tolerance then
                    reason := 'neutral';
                    broken_at := p_starts[i];
                    breaker_position := i;
                    is_open := false;
                end if;
            end if;
            if not is_open and ended_at - started_at >= min_streak then
                return next;
            end if;
        end if;
        continue when p_scores[i] < 1;
        if not is_open then
            is_open := true;
            first_position := i;
            started_at := p_starts[i];
            productive := interval '0';
            reason := null;
            breaker_position := null;
            gap := null;
        end if;
        last_position := i;
        ended_at := p_ends[i];
        productive := productive + (p_ends[i] - p_starts[i]);
        distracted := interval '0';
        neutral := interval '0';
    end loop;
    if is_open and ended_at - started_at >= min_streak then
        broken_at := p_ends[cardinality(p_ends)];
        return next;
    end if;
end
$$;
