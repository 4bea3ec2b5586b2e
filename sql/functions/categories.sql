-- Category rules and scores: changing them, and the resulting categories. May run again at any time.
--
-- Functions with a sign-in parameter are called by the authorization server, which cannot read activity itself: each
-- looks the session up as deletion.sql does, and covers only that session's person. The others check no rights, so
-- they belong to the owner, and operators' commands call them.

-- The category of a site by the service's rules, given categories by domain: its own, or that of the nearest domain
-- above it; null without one. None of the rules has more than four labels.
create or replace function svc.category_of_site(p_known jsonb, p_domain text)
returns text
language plpgsql
immutable
strict
parallel safe
as $$
declare
    labels constant text[] := string_to_array(p_domain, '.');
    above  text;
begin
    if p_known ? p_domain then
        return p_known ->> p_domain;
    end if;
    for n in reverse least(cardinality(labels) - 1, 4) .. 1 loop
        above := array_to_string(labels[cardinality(labels) - n + 1:], '.');
        if p_known ? above then
            return p_known ->> above;
        end if;
    end loop;
    return null;
end
$$;

-- A person's time in the last 30 days by all fields that rules can match: the time that counts, and the number of
-- sessions. Of more than 50,000 sessions the newest count.
--
-- Sessions and segments are combined by a union and not by a join: the planner has no statistics of fresh rows, and
-- may expect one row where there are thousands (resourceserver/timeline/timeline.sql).
create or replace function svc.recent_time(p_user_id uuid)
returns table (
    app           text,
    title         text,
    domain        text,
    category      text,
    total_ms      bigint,
    session_count bigint
)
language sql
stable
set search_path = pg_catalog, pg_temp
set enable_bitmapscan = off
begin atomic
    with newest as materialized (
        select session.app,
               session.title,
               session.domain,
               session.category,
               session.idempotency_key,
               session.device_id,
               session.started_at,
               session.ended_at
          from activity.app_session as session
         where session.user_id = p_user_id
               -- No session is longer than a day.
           and session.started_at > now() - interval '744 hours'
           and session.started_at < now()
           and (
                   session.ended_at > now() - interval '720 hours'
                   or session.started_at >= now() - interval '720 hours'
               )
           and not session.idle
         order by session.started_at desc,
                  session.app_session_id desc
         limit 50000
    ),
    counted as materialized (
        select row_number() over (
                   order by
--include owner_order
               ) as n,
               session.app,
               session.title,
               session.domain,
               session.category,
               greatest(session.started_at, now() - interval '720 hours') as starts_at,
               least(session.ended_at, now()) as ends_at
          from newest as session
          join activity.device as device
            on device.user_id = p_user_id
           and device.device_id = session.device_id
    ),
    part as (
        select counted.n,
               counted.app,
               counted.title,
               counted.domain,
               counted.category,
               interval '0' as duration
          from counted
         union all
        select segment.n,
               null,
               null,
               null,
               null,
               segment.ends_at - segment.starts_at
          from (
                   select array_agg(counted.starts_at order by counted.n) as starts,
                          array_agg(counted.ends_at order by counted.n) as ends
                     from counted
               ) as timeline
         cross join lateral svc.owned_segments(timeline.starts, timeline.ends) as segment
    ),
    per_session as (
        select max(part.app) as app,
               max(part.title) as title,
               max(part.domain) as domain,
               max(part.category) as category,
               sum(part.duration) as duration
          from part
         group by part.n
    )
    select per_session.app,
           per_session.title,
           per_session.domain,
           per_session.category,
           svc.duration_ms(sum(per_session.duration)),
           count(*)
      from per_session
     group by per_session.app,
              per_session.title,
              per_session.domain,
              per_session.category;
end;

-- The category of each input, and the reason: `decided_by` is one of rule (with the id of the rule), tracker, site,
-- app (the service's rules) and nothing. Inputs are arrays of equal length. Times and numbers of sessions are only
-- passed on.
create or replace function svc.judge(
    p_user_id    uuid,
    p_apps       text[],
    p_titles     text[],
    p_domains    text[],
    p_categories text[],
    p_totals     bigint[] default '{}',
    p_counts     bigint[] default '{}'
)
returns table (
    app              text,
    title            text,
    domain           text,
    known_as         text,
    decided_by       text,
    category_rule_id uuid,
    total_ms         bigint,
    session_count    bigint
)
language sql
stable
set search_path = pg_catalog, pg_temp
begin atomic
    with rule_inputs as materialized (
        select input.app,
               input.title,
               input.domain,
               input.category,
               null::uuid as title_rule,
               input.total_ms,
               input.session_count
          from unnest(p_apps, p_titles, p_domains, p_categories, p_totals, p_counts)
            as input (app, title, domain, category, total_ms, session_count)
    ),
    rule as (
        select own.category_rule_id,
               own.field,
               own.match,
               own.pattern,
               own.category,
               row_number() over (order by own.priority, own.category_rule_id) as position
          from activity.category_rule as own
         where own.user_id = p_user_id
           and own.switched_off_at is null
    ),
--include decided_category
    rule_id as (
        select array_agg(rule.category_rule_id order by rule.position) as ids
          from rule
    )
    select rule_inputs.app,
           rule_inputs.title,
           rule_inputs.domain,
           rule_inputs.known_as,
--include decided_by
           ,
           (select ids from rule_id)[
--include first_rule
           ],
           rule_inputs.total_ms,
           rule_inputs.session_count
      from decided_category as rule_inputs;
end;

-- A person's time in the last 30 days, with its current category and the reason for it.
create or replace function svc.recent_categories(p_user_id uuid)
returns table (
    app           text,
    title         text,
    domain        text,
    known_as      text,
    decided_by    text,
    total_ms      bigint,
    session_count bigint
)
language sql
stable
set search_path = pg_catalog, pg_temp
begin atomic
    select decided.app,
           decided.title,
           decided.domain,
           decided.known_as,
           decided.decided_by,
           decided.total_ms,
           decided.session_count
      from (
               select array_agg(recent.app) as apps,
                      array_agg(recent.title) as titles,
                      array_agg(recent.domain) as domains,
                      array_agg(recent.category) as categories,
                      array_agg(recent.total_ms) as totals,
                      array_agg(recent.session_count) as counts
                 from svc.recent_time(p_user_id) as recent
           ) as collected
     cross join lateral svc.judge(
               p_user_id,
               collected.apps,
               collected.titles,
               collected.domains,
               collected.categories,
               collected.totals,
               collected.counts
           ) as decided;
end;

-- A person's recent time without a category, or whose tracker calls it Uncategorized: sites, and applications for
-- time without a site, the longest first; at most 20 of them, and how many there are. A rule for an application that
-- has sites would apply to these too, so a column says whether it has any. Names that are too long for the pattern
-- of a rule are left out.
create or replace function svc.recent_uncategorized(p_user_id uuid)
returns table (
    field         text,
    name          text,
    has_sites     boolean,
    total_ms      bigint,
    session_count bigint,
    name_count    bigint
)
language sql
stable
set search_path = pg_catalog, pg_temp
begin atomic
    with recent as materialized (
        select done.app,
               done.domain,
               done.known_as,
               done.decided_by,
               sum(done.total_ms)::bigint as total_ms,
               sum(done.session_count)::bigint as session_count
          from svc.recent_categories(p_user_id) as done
         group by done.app,
                  done.domain,
                  done.known_as,
                  done.decided_by
    ),
    unsorted as (
        select case when recent.domain is null then 'app' else 'domain' end as field,
               coalesce(recent.domain, recent.app) as name,
               sum(recent.total_ms)::bigint as total_ms,
               sum(recent.session_count)::bigint as session_count
          from recent
         where recent.known_as = 'Uncategorized'
           and recent.decided_by <> 'rule'
           and length(coalesce(recent.domain, recent.app)) <= 255
         group by recent.domain is null,
                  coalesce(recent.domain, recent.app)
    )
    select unsorted.field,
           unsorted.name,
           unsorted.field = 'app' and unsorted.name in (select app from recent where domain is not null),
           unsorted.total_ms,
           unsorted.session_count,
           count(*) over ()
      from unsorted
     order by unsorted.total_ms desc,
              unsorted.name collate "C",
              unsorted.field
     limit 20;
end;

-- The time in the last 30 days that a rule would match at any place of the order: its length, the number of sessions,
-- the part that existing rules already decide, and the ten names of the rule's field with most time, each with the
-- category that most of its time is in now.
create or replace function svc.recent_matches(p_user_id uuid, p_field text, p_match text, p_pattern text)
returns table (total_ms bigint, session_count bigint, ruled_ms bigint, name_count bigint, names json)
language sql
stable
set search_path = pg_catalog, pg_temp
begin atomic
    with matching as (
        select case p_field
                   when 'app' then recent.app
                   when 'title' then recent.title
                   else recent.domain
               end as name,
               recent.known_as,
               recent.decided_by,
               recent.total_ms,
               recent.session_count
          from svc.recent_categories(p_user_id) as recent
         where svc.matches(
                   case p_field
                       when 'app' then recent.app
                       when 'title' then recent.title
                       else recent.domain
                   end,
                   p_match,
                   p_pattern
               )
    ),
    per_category as (
        select matching.name,
               matching.known_as,
               sum(matching.total_ms)::bigint as total_ms,
               sum(matching.session_count)::bigint as session_count
          from matching
         group by matching.name,
                  matching.known_as
    ),
    per_name as (
        select per_category.name,
               (
                   array_agg(
                       per_category.known_as
                       order by per_category.total_ms desc, per_category.known_as collate "C"
                   )
               )[1] as known_as,
               sum(per_category.total_ms)::bigint as total_ms,
               sum(per_category.session_count)::bigint as session_count
          from per_category
         group by per_category.name
    ),
    ranked as (
        select per_name.name,
               per_name.known_as,
               per_name.total_ms,
               per_name.session_count,
               row_number() over (order by per_name.total_ms desc, per_name.name collate "C") as rank
          from per_name
    )
    select coalesce(sum(matching.total_ms), 0)::bigint,
           coalesce(sum(matching.session_count), 0)::bigint,
           coalesce(sum(matching.total_ms) filter (where matching.decided_by = 'rule'), 0)::bigint,
           (select count(*) from ranked),
           (
               select coalesce(
                          json_agg(
                              json_build_object(
                                  'name', ranked.name,
                                  'category', ranked.known_as,
                                  'total_ms', ranked.total_ms,
                                  'session_count', ranked.session_count
                              )
                              order by ranked.rank
                          ),
                          '[]'
                      )
                 from ranked
                where ranked.rank <= 10
           )
      from matching;
end;

-- Texts on which an expression is tried: 1,024 letters each, made of two pieces of the expression in a pseudo-random
-- order, and one text of all pieces. Pieces are its words, its letters and a few other letters, at most 16 of them;
-- those before a {number} and those that it contains most often first. The same expression always gets the same texts.
--
-- Postgres reads a text by an automaton whose states it computes on the way. A text is slow if it leads to a
-- new state at almost each letter: [xy]*x[xy]{200}z has 2^200 states, and random texts of x and y reach them.
create or replace function svc.trial_texts(p_pattern text)
returns setof text
language sql
immutable
set search_path = pg_catalog, pg_temp
begin atomic
    with source as (
        select regexp_replace(lower(part.text), '\{[0-9,]*\}|\\[a-z]', '|', 'g') as text
          from (
                   select p_pattern as text
                    union all
                   select repeat(counted.match[1] || '|', 9)
                     from regexp_matches(p_pattern, '([^{]{1,20})\{', 'g') as counted (match)
                    union all
                   select chr(('x' || lpad(coded.match[1], 8, '0'))::bit(32)::integer)
                     from regexp_matches(p_pattern, '\\[xuU]0*([1-9a-fA-F][0-9a-fA-F]{1,3})', 'g') as coded (match)
                    where lower(coded.match[1]) < 'd800'
                       or length(coded.match[1]) < 4
                    union all
                   select '1|0|a|b| '
               ) as part
    ),
    word_in_text as (
        select word.match[1] as piece
          from source
         cross join regexp_matches(source.text, '[[:alnum:]]{2,}', 'g') as word (match)
         union all
        select letter.piece
          from source
         cross join string_to_table(source.text, null) as letter (piece)
         where letter.piece !~ '[][()|*+?^$\\{}]'
    ),
    piece as (
        select word_in_text.piece as text,
               row_number() over (order by count(*) desc, word_in_text.piece collate "C") as n
          from word_in_text
         group by word_in_text.piece
         order by n
         limit 16
    ),
    noise as (
        select string_agg(md5(n::text), '' order by n) as digits
          from generate_series(1, 32) as n
    ),
    coin as materialized (
        select translate(noise.digits, '0123456789abcdef', repeat(E'\x01\x02', 8)) as sides
          from noise
    )
    select left(replace(replace(coin.sides, E'\x01', one.text), E'\x02', other.text), 1024)
      from coin
     cross join piece as one
      join piece as other
        on one.n < other.n
     union all
    select left(string_agg(piece.text, '' order by digit.n), 1024)
      from noise
     cross join string_to_table(noise.digits, null) with ordinality as digit (hex, n)
      join piece
        on piece.n = strpos('0123456789abcdef', digit.hex);
end;

-- How many microseconds the slowest of the trial texts takes. The best of three times counts, and the best of ten for a
-- text that seems too slow, so that other load of the machine hardly matters. A text that takes more than a millisecond
-- ends the trial.
create or replace function svc.reading_us(p_pattern text)
returns integer
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    most     constant integer := (svc.most_reading_us()).one;
    sample   text;
    began_at timestamptz;
    taken    integer;
    best     integer;
    slowest  integer := 0;
begin
    -- The first use builds the automaton, for which svc.rule_problem has a limit of its own.
    perform '' ~* p_pattern;
    for sample in select * from svc.trial_texts(p_pattern) loop
        best := null;
        for attempt in 1 .. 10 loop
            began_at := clock_timestamp();
            perform sample ~* p_pattern;
            taken := 1000000 * extract(epoch from clock_timestamp() - began_at);
            best := least(best, taken);
            exit when best <= slowest or attempt >= 3 and best <= most;
        end loop;
        slowest := greatest(slowest, best);
        exit when slowest > 1000;
    end loop;
    return slowest;
end
$$;

-- The longest time of a trial (svc.reading_us), for one expression and for all of a person together. A usual
-- expression takes 10, and one of 255 equal letters 140, or twice that beside other work. With the second, a read of
-- 600 different titles of 1,024 letters spends 0.9 s on them.
create or replace function svc.most_reading_us(out one integer, out together integer)
language sql
immutable
return row (300, 1500);

-- Why a rule is invalid; null: it is valid. An expression is tried first (0017_default_rules.sql says
-- what it must not contain, which bounds the time of the trial): not_one, if Postgres cannot parse it, and too_slow,
-- if building its automaton and reading five texts of 1,024 letters takes more than 25 ms. The best of three times
-- counts, each of an expression that this connection cannot have used before. Then slow_texts, if there are texts
-- that it reads too slowly (svc.reading_us).
create or replace function svc.rule_problem(p_match text, p_pattern text)
returns text
language plpgsql
volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    problem  text;
    letters  constant text := coalesce(nullif(regexp_replace(p_pattern, '[^[:alnum:] ]', '', 'g'), ''), 'a');
    variant  text;
    began_at timestamptz;
begin
    if p_match <> 'regex' then
        return null;
    end if;
    problem := svc.expression_problem(p_pattern);
    if problem is not null then
        return problem;
    end if;
    -- By itself first: an expression with an open bracket could be valid together with the text after it.
    perform '' ~* p_pattern;
    for attempt in 1 .. 3 loop
        variant := '(?:' || p_pattern || ')|#' || gen_random_uuid();
        began_at := clock_timestamp();
        perform left(repeat(piece, 1024), 1024) ~* variant
          from unnest(array['a', 'ab', 'aab b ', letters, p_pattern]) as piece;
        if clock_timestamp() - began_at <= interval '25 milliseconds' then
            return case when svc.reading_us(p_pattern) > (svc.most_reading_us()).one then 'slow_texts' end;
        end if;
    end loop;
    return 'too_slow';
exception
    when invalid_regular_expression then
        return 'not_one';
    -- An automaton that is too large for Postgres, which no expression that passes the checks above should have.
    when internal_error or program_limit_exceeded or out_of_memory then
        return 'too_large';
end
$$;

-- Begins a change of a person's rules or scores; false: there is no such account. Until the end of the transaction
-- no other transaction changes them or deletes the account, and its days are not summed up: a job that uses the
-- previous rules could remove a mark that this transaction has not seen (resourceserver/timeline/summaries.sql).
create or replace function svc.begin_category_change(p_user_id uuid)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform from identity.user as person
      where person.user_id = p_user_id
        for no key update;
    if found then
        perform pg_advisory_xact_lock(hashtextextended('summaries of ' || p_user_id, 0));
        return true;
    end if;
    return false;
end
$$;

-- A person's title rules in their order, without those that are switched off. The first of them that matches is a part of labels.
create or replace function svc.title_rules(p_user_id uuid)
returns uuid[]
language sql
stable
set search_path = pg_catalog, pg_temp
begin atomic
    select array(
               select category_rule_id
                 from activity.category_rule
                where user_id = p_user_id
                  and field = 'title'
                  and switched_off_at is null
                order by priority,
                         category_rule_id
           );
end;

-- Ends a change: if the title rules differ from those before, all rollups are computed again. All summaries are in
-- any case, and so are the streaks and detours of spans of days (resourceserver/timeline/kept.sql). A day that was marked
-- already may be in computation now, so it is marked again. Ingest marks rollups before summaries too, so that the two
-- cannot deadlock.
create or replace function svc.end_category_change(p_user_id uuid, p_title_rules_before uuid[])
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if svc.title_rules(p_user_id) <> p_title_rules_before then
        perform svc.mark_all_days(p_user_id);
    end if;
    -- Spans that were made with other rules are not used. The job makes them again.
    insert into activity.attention_due (user_id)
    values (p_user_id)
        on conflict (user_id) do update
       set marked_at = greatest(now(), attention_due.marked_at + interval '1 microsecond');
    perform svc.mark_all_summaries(p_user_id);
end
$$;

-- Gives a person's rules the places 1, 2, 3, ... in this order.
create or replace function svc.place_rules(p_user_id uuid, p_rules uuid[])
returns void
language sql
set search_path = pg_catalog, pg_temp
begin atomic
    update activity.category_rule as rule
       set priority = placed.position
      from unnest(p_rules) with ordinality as placed (category_rule_id, position)
     where rule.user_id = p_user_id
       and rule.category_rule_id = placed.category_rule_id
       and rule.priority <> placed.position;
end;

-- A person's rules in their order.
create or replace function svc.rules_in_order(p_user_id uuid)
returns uuid[]
language sql
stable
set search_path = pg_catalog, pg_temp
begin atomic
    select array(
               select category_rule_id
                 from activity.category_rule
                where user_id = p_user_id
                order by priority,
                         category_rule_id
           );
end;

-- Adds a rule at a place of the order, by default as the last one; the rules from there on move by one. `problem`
-- says why nothing was added: the problem of svc.rule_problem; no_account; too_many (more than 200 rules, of which 50
-- are expressions, would make answers too slow); exists; slow_together.
create or replace function svc.insert_rule(
    p_user_id  uuid,
    p_field    text,
    p_match    text,
    p_pattern  text,
    p_category text,
    p_place    integer default null,
    out problem          text,
    out category_rule_id uuid
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    titles  uuid[];
    ordered uuid[];
    place   integer;
    own_us  integer;
begin
    problem := svc.rule_problem(p_match, p_pattern);
    if problem is not null then
        return;
    end if;
    if p_match = 'regex' then
        own_us := svc.reading_us(p_pattern);
    end if;
    if not svc.begin_category_change(p_user_id) then
        problem := 'no_account';
        return;
    end if;
    select case
               when count(*) filter (
                        where field = p_field
                          and match = p_match
                          and (pattern = p_pattern or match <> 'regex' and lower(pattern) = lower(p_pattern))
                    ) > 0
                   then 'exists'
               when count(*) >= 200 then 'too_many'
               when p_match = 'regex' and count(*) filter (where match = 'regex') >= 50 then 'too_many'
               when own_us + coalesce(sum(reading_us) filter (where switched_off_at is null), 0)
                        > (svc.most_reading_us()).together
                   then 'slow_together'
           end
      into problem
      from activity.category_rule
     where user_id = p_user_id;
    if problem is not null then
        return;
    end if;
    titles := svc.title_rules(p_user_id);
    ordered := svc.rules_in_order(p_user_id);
    place := least(greatest(coalesce(p_place, cardinality(ordered) + 1), 1), cardinality(ordered) + 1);
    category_rule_id := gen_random_uuid();
    insert into activity.category_rule (
        user_id,
        category_rule_id,
        priority,
        field,
        match,
        pattern,
        category,
        reading_us
    )
    values (p_user_id, insert_rule.category_rule_id, 0, p_field, p_match, p_pattern, p_category, own_us);
    perform svc.place_rules(
        p_user_id,
        ordered[:place - 1] || insert_rule.category_rule_id || ordered[place:]
    );
    perform svc.end_category_change(p_user_id, titles);
end
$$;

-- Replaces a rule at its place, or adds one as the last if the rule is gone. `problem` is that of svc.insert_rule, and
-- then nothing is changed.
create or replace function svc.replace_rule(
    p_user_id          uuid,
    p_category_rule_id uuid,
    p_field            text,
    p_match            text,
    p_pattern          text,
    p_category         text
)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    place   integer;
    problem text;
begin
    if not svc.begin_category_change(p_user_id) then
        return 'no_account';
    end if;
    place := array_position(svc.rules_in_order(p_user_id), p_category_rule_id);
    perform svc.delete_rule(p_user_id, p_category_rule_id);
    problem := (
        select inserted.problem
          from svc.insert_rule(p_user_id, p_field, p_match, p_pattern, p_category, place) as inserted
    );
    if problem is not null then
        -- Undoes the deletion, and nothing else: the block is a transaction within the transaction.
        raise exception using errcode = 'SV422';
    end if;
    return null;
exception
    when sqlstate 'SV422' then
        return problem;
end
$$;

-- Tries ten expressions of one person that were saved before there were trials, in their order. Those that are too
-- slow, by themselves or together with those before, are switched off: they keep their places and decide nothing.
-- Returns how many were switched off; null: no person has such rules, or all of them are being changed now.
create or replace function svc.try_rules()
returns integer
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    who          uuid;
    titles       uuid[];
    rule         record;
    taken        integer;
    together     integer;
    is_off       boolean;
    switched_off integer := 0;
begin
    -- In random order, so that a person whose trial fails delays nobody else. The locks are those of
    -- svc.begin_category_change.
    select person.user_id
      into who
      from identity.user as person
     where person.user_id in (
               select untried.user_id
                 from activity.category_rule as untried
                where untried.match = 'regex'
                  and untried.reading_us is null
           )
     order by random()
     limit 1
       for no key update skip locked;
    if who is null or not pg_try_advisory_xact_lock(hashtextextended('summaries of ' || who, 0)) then
        return null;
    end if;
    titles := svc.title_rules(who);
    together := (
        select coalesce(sum(known.reading_us), 0)
          from activity.category_rule as known
         where known.user_id = who
           and known.switched_off_at is null
    );
    for rule in
        select untried.category_rule_id,
               untried.pattern
          from activity.category_rule as untried
         where untried.user_id = who
           and untried.match = 'regex'
           and untried.reading_us is null
         order by untried.priority,
                  untried.category_rule_id
         limit 10
    loop
        taken := svc.reading_us(rule.pattern);
        is_off := taken > (svc.most_reading_us()).one or together + taken > (svc.most_reading_us()).together;
        update activity.category_rule as tried
           set reading_us = taken,
               switched_off_at = case when is_off then now() end
         where tried.user_id = who
           and tried.category_rule_id = rule.category_rule_id;
        if is_off then
            switched_off := switched_off + 1;
        else
            together := together + taken;
        end if;
    end loop;
    if switched_off > 0 then
        perform svc.end_category_change(who, titles);
        insert into identity.security_event (user_id, event)
        values (who, 'rules_switched_off');
    end if;
    return switched_off;
end
$$;

-- Removes a rule and returns its pattern; null: they have no such rule.
create or replace function svc.delete_rule(p_user_id uuid, p_category_rule_id uuid)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    titles  uuid[];
    removed text;
begin
    if not svc.begin_category_change(p_user_id) then
        return null;
    end if;
    titles := svc.title_rules(p_user_id);
    delete from activity.category_rule
     where user_id = p_user_id
       and category_rule_id = p_category_rule_id
    returning pattern
         into removed;
    if removed is not null then
        perform svc.place_rules(p_user_id, svc.rules_in_order(p_user_id));
        perform svc.end_category_change(p_user_id, titles);
    end if;
    return removed;
end
$$;

-- Moves a rule by a number of places, at most to an end of the order. False: the person has no such rule.
create or replace function svc.move_rule(p_user_id uuid, p_category_rule_id uuid, p_by integer)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    titles  uuid[];
    ordered uuid[];
    others  uuid[];
    place   integer;
begin
    if not svc.begin_category_change(p_user_id) then
        return false;
    end if;
    titles := svc.title_rules(p_user_id);
    ordered := svc.rules_in_order(p_user_id);
    place := array_position(ordered, p_category_rule_id);
    if place is null then
        return false;
    end if;
    others := array_remove(ordered, p_category_rule_id);
    place := least(greatest(place + p_by, 1), cardinality(ordered));
    perform svc.place_rules(p_user_id, others[:place - 1] || p_category_rule_id || others[place:]);
    perform svc.end_category_change(p_user_id, titles);
    return true;
end
$$;

-- Sets a person's own score of a category, or, with null, removes it, so that the service's score counts again.
-- Returns why nothing was changed: no_account; too_many (200 categories).
create or replace function svc.set_score(p_user_id uuid, p_category text, p_score integer)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.begin_category_change(p_user_id) then
        return 'no_account';
    end if;
    delete from activity.category_score
     where user_id = p_user_id
       and category = p_category;
    if p_score is not null then
        if (select count(*) >= 200 from activity.category_score where user_id = p_user_id) then
            return 'too_many';
        end if;
        insert into activity.category_score (user_id, category, score)
        values (p_user_id, p_category, p_score);
    end if;
    perform svc.end_category_change(p_user_id, svc.title_rules(p_user_id));
    return null;
end
$$;

-- The scores of the categories that a person may use: those of the service, of their rules, and those with a score of
-- their own. `own` is the person's score, `usual` the service's.
create or replace function svc.scores_of(p_user_id uuid)
returns table (category text, own integer, usual integer)
language sql
stable
set search_path = pg_catalog, pg_temp
begin atomic
    select named.category,
           mine.score::integer,
           coalesce(known.score, 0)::integer
      from (
               select known.category
                 from reference.category as known
                union
               select rule.category
                 from activity.category_rule as rule
                where rule.user_id = p_user_id
                union
               select score.category
                 from activity.category_score as score
                where score.user_id = p_user_id
           ) as named (category)
      left join reference.category as known
             on known.category = named.category
      left join activity.category_score as mine
             on mine.user_id = p_user_id
            and mine.category = named.category
     order by coalesce(mine.score, known.score, 0) desc,
              named.category collate "C";
end;

-- The rules of the signed-in person in their order; no row: they have none, or the session is not valid.
create or replace function svc.category_rules(p_user_id uuid, p_session_hash bytea)
returns table (category_rule_id uuid, field text, match text, pattern text, category text)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
begin atomic
    select rule.category_rule_id,
           rule.field,
           rule.match,
           rule.pattern,
           rule.category
      from activity.category_rule as rule
     where rule.user_id = p_user_id
       and svc.is_signed_in(p_user_id, p_session_hash)
     order by rule.priority,
              rule.category_rule_id
     limit 1000;
end;

-- The rules of the signed-in person that are switched off (svc.try_rules); no row: none, or the session is not valid.
create or replace function svc.switched_off_rules(p_user_id uuid, p_session_hash bytea)
returns setof uuid
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
begin atomic
    select rule.category_rule_id
      from activity.category_rule as rule
     where rule.user_id = p_user_id
       and rule.switched_off_at is not null
       and svc.is_signed_in(p_user_id, p_session_hash);
end;

-- The scores of categories for the signed-in person; no row: the session is not valid.
create or replace function svc.category_scores(p_user_id uuid, p_session_hash bytea)
returns table (category text, own integer, usual integer)
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
begin atomic
    select known.category,
           known.own,
           known.usual
      from svc.scores_of(p_user_id) as known
     where svc.is_signed_in(p_user_id, p_session_hash)
     limit 1000;
end;

-- The recent time without a category of the signed-in person (svc.recent_uncategorized).
create or replace function svc.uncategorized_time(p_user_id uuid, p_session_hash bytea)
returns table (
    field         text,
    name          text,
    has_sites     boolean,
    total_ms      bigint,
    session_count bigint,
    name_count    bigint
)
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if svc.is_signed_in(p_user_id, p_session_hash) then
        return query select * from svc.recent_uncategorized(p_user_id);
    end if;
end
$$;

-- What a rule would match for the signed-in person (svc.recent_matches), or the problem with it (svc.rule_problem);
-- no row: the session is not valid.
create or replace function svc.preview_category_rule(
    p_user_id      uuid,
    p_session_hash bytea,
    p_field        text,
    p_match        text,
    p_pattern      text
)
returns table (
    problem       text,
    total_ms      bigint,
    session_count bigint,
    ruled_ms      bigint,
    name_count    bigint,
    names         json
)
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.is_signed_in(p_user_id, p_session_hash) then
        return;
    end if;
    problem := svc.rule_problem(p_match, p_pattern);
    if problem is not null then
        return next;
        return;
    end if;
    return query
    select null::text,
           matched.total_ms,
           matched.session_count,
           matched.ruled_ms,
           matched.name_count,
           matched.names
      from svc.recent_matches(p_user_id, p_field, p_match, p_pattern) as matched;
end
$$;

-- Begins a change for the signed-in person; false: the session is not valid. A transaction that ends all sign-ins of
-- an account locks its row; so the session is looked up after that row is locked.
create or replace function svc.begin_signed_in_change(p_user_id uuid, p_session_hash bytea)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    perform svc.begin_category_change(p_user_id);
    return svc.is_signed_in(p_user_id, p_session_hash);
end
$$;

-- Adds a rule for the signed-in person, as the last one (svc.insert_rule); `problem` may also be signed_out.
create or replace function svc.add_category_rule(
    p_user_id      uuid,
    p_session_hash bytea,
    p_field        text,
    p_match        text,
    p_pattern      text,
    p_category     text
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.begin_signed_in_change(p_user_id, p_session_hash) then
        return 'signed_out';
    end if;
    return (
        select problem
          from svc.insert_rule(p_user_id, p_field, p_match, p_pattern, p_category)
    );
end
$$;

-- Replaces a rule of the signed-in person (svc.replace_rule); the problem may also be signed_out.
create or replace function svc.replace_category_rule(
    p_user_id          uuid,
    p_session_hash     bytea,
    p_category_rule_id uuid,
    p_field            text,
    p_match            text,
    p_pattern          text,
    p_category         text
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.begin_signed_in_change(p_user_id, p_session_hash) then
        return 'signed_out';
    end if;
    return svc.replace_rule(p_user_id, p_category_rule_id, p_field, p_match, p_pattern, p_category);
end
$$;

-- Removes a rule of the signed-in person and returns its pattern; null: there is none, or the session is not valid.
create or replace function svc.remove_category_rule(
    p_user_id          uuid,
    p_session_hash     bytea,
    p_category_rule_id uuid
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.begin_signed_in_change(p_user_id, p_session_hash) then
        return null;
    end if;
    return svc.delete_rule(p_user_id, p_category_rule_id);
end
$$;

-- Moves a rule of the signed-in person (svc.move_rule); false: there is none, or the session is not valid.
create or replace function svc.move_category_rule(
    p_user_id          uuid,
    p_session_hash     bytea,
    p_category_rule_id uuid,
    p_by               integer
)
returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.begin_signed_in_change(p_user_id, p_session_hash) then
        return false;
    end if;
    return svc.move_rule(p_user_id, p_category_rule_id, p_by);
end
$$;

-- Scores a category for the signed-in person (svc.set_score); the problem may also be signed_out.
create or replace function svc.score_category(
    p_user_id      uuid,
    p_session_hash bytea,
    p_category     text,
    p_score        integer
)
returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if not svc.begin_signed_in_change(p_user_id, p_session_hash) then
        return 'signed_out';
    end if;
    return svc.set_score(p_user_id, p_category, p_score);
end
$$;
