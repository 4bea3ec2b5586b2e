-- What is kept of switches, detours and streaks of focus: spans of days, which are quarters of a year and months of
-- UTC, and sixths of months, of five days each but for the last one, which ends with the month. Each is made of the
-- timelines of its days (sql/migrations/0050_attention.sql). A span is used while these timelines are those that it was
-- made of and none of their days is marked. For what categories decide, the rules have to be those that it was made with as
-- well. So a read needs only the segments of the rest of its range, and its answer is the same with and without spans.
--
-- A statement that reads spans defines `wanted` and includes `kept_spans`. One that adds up what they have includes
-- `rest_of_range` too, and defines `kept` with what it reads of them; then what is true of `requested` is computed as
-- without spans. The one for streaks names spans and rest in its answer, for the statements after it
-- (endpoints/attention.py).

-- fragment: rules_digest
-- `rules_digest`: a digest of all that decides the category and the score of a label. The number stands for the
-- statements that decide: a version that decides differently has another one.
-- needs: rule (category, category_rule_id, field, match, pattern, position)
-- needs: score (category, score)
-- gives: rules_digest (text)
rules_digest as materialized (
    select md5(
               concat_ws(
                   E'\n\n',
                   '2',
                   (
                       select string_agg(
                                  concat_ws(E'\t', category_rule_id, field, match, pattern, category),
                                  E'\n'
                                  order by position
                              )
                         from rule
                   ),
                   (
                       select string_agg(concat_ws(E'\t', category, score), E'\n' order by category collate "C")
                         from score
                   ),
                   -- There are hundreds of these, and a sum needs no order.
                   (
                       select sum(hashtextextended(concat_ws(E'\t', field, pattern, category), 0))
                         from reference.category_rule
                   )
               )
           ) as text
),

-- fragment: kept_spans
-- `usable`: the longest spans in the range of `wanted` that can be used, none within another one. Unless
-- `rules` is null, those that were made with other rules are left out.
-- needs: wanted (ends_at, rules, starts_at)
-- gives: usable (ends_at, first, last, starts_at)
valid as (
    select span.first,
           span.last
      from wanted,
           lateral (
               select first,
                      last,
                      read_first,
                      read_last,
                      read_computed_at
                 from activity.attention
                where user_id = %(user_id)s
                  and first >= (wanted.starts_at at time zone 'UTC')::date
                  and first <= (wanted.ends_at at time zone 'UTC')::date
                  and first::timestamp at time zone 'UTC' >= wanted.starts_at
                  and (last + 1)::timestamp at time zone 'UTC' <= wanted.ends_at
                  and (wanted.rules is null or rules = wanted.rules)
               offset 0
           ) as span
     where not exists (
               select
                 from activity.rollup_due
                where user_id = %(user_id)s
                  and date between span.read_first and span.read_last
           )
       and span.read_computed_at = array(
               select computed_at
                 from activity.app_timeline
                where user_id = %(user_id)s
                  and date between span.read_first and span.read_last
                order by date
           )
),
usable as materialized (
    select first,
           last,
           first::timestamp at time zone 'UTC' as starts_at,
           (last + 1)::timestamp at time zone 'UTC' as ends_at
      from (
               select valid.*,
                      max(last) over (order by first, last desc rows unbounded preceding exclude current row) as before
                 from valid
           ) as in_order
     where (last > before) is not false
),

-- fragment: rest_of_range
-- `requested`: the stretches of the range of `wanted` without those of `usable`. `requested_edges`: their starts and ends
-- in order, in milliseconds.
-- needs: usable (ends_at, starts_at)
-- needs: wanted (ends_at, starts_at)
-- gives: requested (ends_at, starts_at)
-- gives: requested_edges (ms)
requested as materialized (
    select lower(rest) as starts_at,
           upper(rest) as ends_at
      from wanted,
           lateral unnest(
               tstzmultirange(tstzrange(wanted.starts_at, wanted.ends_at))
                   - coalesce((select range_agg(tstzrange(starts_at, ends_at)) from usable), '{}')
           ) as rest
),
requested_edges as (
    select array_agg((extract(epoch from edge.at) * 1000)::bigint order by edge.at) as ms
      from requested,
           lateral (values (requested.starts_at), (requested.ends_at)) as edge (at)
),

-- fragment: labels_in_kept_days
-- `used_label`: the labels of `timeline_day` and of `kept`. Needs the fragment `timeline_days`.
-- needs: kept (labels)
-- needs: reach (first, last)
-- gives: used_label (app, category, domain, label_id, title_rule)
used_label as materialized (
    select label.label_id,
           label.app,
           label.domain,
           label.category,
           label.title_rule
      from activity.label as label
     where label.user_id = %(user_id)s
       and label.label_id = any (
               array(
                   select part.label_id
                     from reach,
                          lateral (
                              select label_id
                                from activity.app_time
                               where user_id = %(user_id)s
                                 and grain = 3
                                 and starts_at >= reach.first::timestamp at time zone 'UTC'
                                 and starts_at < (reach.last + 1)::timestamp at time zone 'UTC'
                              offset 0
                          ) as part
                    union all
                   select unnest(labels)
                     from kept
               )
           )
),

-- fragment: rule_inputs_in_kept_days
-- `rule_inputs`: the inputs of category rules, which are the labels of `timeline_day` and of `kept`, and the sessions
-- of marked days. Needs the fragment `timeline_days`.
-- needs: kept (labels)
-- needs: marked_session (app, category, domain, n, starts_at, title)
-- needs: reach (first, last)
-- gives: rule_inputs (app, category, domain, label_id, title, title_rule)
--include labels_in_kept_days
rule_inputs as (
    select label_id,
           app,
           null as title,
           domain,
           category,
           title_rule
      from used_label
     union all
    select -n,
           app,
           title,
           domain,
           category,
           null
      from marked_session
),

-- fragment: brackets
-- `brackets`: between which values the median of all values of a key lies, of which each `piece` has some in order:
-- between the least and the greatest median of a piece.
-- needs: piece (key, sorted)
-- gives: brackets (greatest, keys, least)
bracket as (
    select key,
           min(sorted[(cardinality(sorted) + 1) / 2]) as least,
           max(sorted[cardinality(sorted) / 2 + 1]) as greatest
      from piece
     where cardinality(sorted) > 0
     group by key
),
brackets as materialized (
    select array_agg(key order by key) as keys,
           array_agg(least order by key) as least,
           array_agg(greatest order by key) as greatest
      from bracket
),

-- fragment: narrow_brackets
-- The same, with brackets of fewer values, for many values. The median of all lies most often near the average of the
-- medians of pieces, between `low` and `high`. The number of values up to each of these shows on which side of it the median
-- of all lies.
-- needs: piece (key, sorted)
-- gives: brackets (greatest, keys, least)
bracket as materialized (
    select row_number() over (order by key)::integer as place,
           key,
           count,
           least,
           greatest,
           average - (greatest - least) / 8 as low,
           average + (greatest - least) / 8 as high
      from (
               select key,
                      sum(cardinality(sorted)) as count,
                      min(sorted[(cardinality(sorted) + 1) / 2]) as least,
                      max(sorted[cardinality(sorted) / 2 + 1]) as greatest,
                      (sum(cardinality(sorted) * sorted[(cardinality(sorted) + 1) / 2]) / sum(cardinality(sorted)))::bigint
                          as average
                 from piece
                where cardinality(sorted) > 0
                group by key
           ) as medians
),
guess as materialized (
    select array_agg(key order by key) as keys,
           array_agg(low order by key) as low,
           array_agg(high order by key) as high
      from bracket
),
brackets as materialized (
    select array_agg(key order by place) as keys,
           array_agg(
               greatest(
                   least,
                   case when up_to_low < (count + 1) / 2 then low + 1 end,
                   case when up_to_high < (count + 1) / 2 then high + 1 end
               )
               order by place
           ) as least,
           array_agg(
               least(
                   greatest,
                   case when up_to_low > count / 2 then low end,
                   case when up_to_high > count / 2 then high end
               )
               order by place
           ) as greatest
      from bracket
      full join (
               select place,
                      sum(width_bucket((select low from guess)[place], sorted)) as up_to_low,
                      sum(width_bucket((select high from guess)[place], sorted)) as up_to_high
                 from piece,
                      lateral width_bucket(key, (select keys from guess)) as place
                where cardinality(sorted) > 0
                group by place
           ) as counted using (place)
),

-- fragment: medians
-- `median`: the median of all values of a key, of which each `piece` has some in order; rounded as all answers are.
-- A binary search finds the values within `brackets` in each piece, so that only few are sorted: those of all keys
-- together, each as one number with its key's place, because numbers are sorted in half the time that rows take. A place
-- counts as 2^41, which is 69 years in milliseconds, and there may be two million of them.
-- needs: brackets (greatest, keys, least)
-- needs: piece (key, sorted)
-- gives: median (key, ms)
cut_piece as materialized (
    select place,
           cardinality(sorted) as count,
           width_bucket(least - 1, sorted) as below,
           sorted[width_bucket(least - 1, sorted) + 1:width_bucket(greatest, sorted)] as sorted
      from (
               select place,
                      sorted,
                      (select least from brackets)[place] as least,
                      (select greatest from brackets)[place] as greatest
                 from piece,
                      lateral width_bucket(key, (select keys from brackets)) as place
                where cardinality(sorted) > 0
               offset 0
           ) as bracketed
),
middle as materialized (
    select array_agg(value order by value) as sorted
      from (select place * 2199023255552 + unnest(sorted) as value from cut_piece) as part
),
median as (
    select (select keys from brackets)[place] as key,
           round((sorted[start + (count + 1) / 2] + sorted[start + count / 2 + 1]) / 2.0)::bigint
               - place * 2199023255552
               as ms
      from middle,
           (
               select place,
                      sum(count) as count,
                      (sum(sum(cardinality(sorted))) over (order by place) - sum(cardinality(sorted) + below))::bigint
                          as start
                 from cut_piece
                group by place
           ) as cut
),
