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
-- two candidates are looked through.
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
                       interval '1 minute'
                   ) as candidate
             where (candidate at time zone p_zone)::date = p_date
        ),
        (
            select min(candidate)
              from generate_series(
                       midnight - greatest(before, after),
                       midnight - least(before, after),
                       interval '1 minute'
                   ) as candidate
             where (candidate at time zone p_zone)::date > p_date
        )
    );
end
$$;

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
        continue when p_ends[i] <= p_starts[i];
        while height > 0 and p_ends[stack[height]] <= p_ends[i] loop
            height := height - 1;
        end loop;
        height := height + 1;
        stack[height] := i;
        clock := upto;
    end loop;
end
$$;
