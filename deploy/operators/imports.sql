-- What operators ask about what imports have brought. Runs with the rights of the owner of the tables.

-- name: similar_listens
-- Pairs of sources that both know some listens: the same title of the same artist, whatever the case of letters, at most
-- :most_s seconds apart. How many, and the newest :examples of them; no row: no two sources have one.
--
-- Listens of the two sources are sorted by time, and only neighbours are compared, so the work grows with the number of
-- listens, however often one title was played. Neighbours of different sources that are close to each other form a run.
-- The first two of a run are one listen, and so are the next two: each is counted once.
-- Where one source has a listen twice in that time, fewer may be counted than could be paired.
with own as (
    select source collate "C" as source,
           listened_at,
           track,
           artist,
           -- Numbers are sorted faster than texts, and each listen is sorted once for each other source.
           dense_rank() over (
               order by lower(artist) collate "C", lower(track) collate "C"
           ) as title
      from music.listen
     where user_id = %(user_id)s
),
source as materialized (
    select distinct source
      from own
),
beside as (
    select first.source as first_source,
           second.source as second_source,
           own.*,
           lag(own.source) over of_title as source_before,
           lag(own.listened_at) over of_title as before
      from source as first
      join source as second
        on second.source > first.source
      join own
        on own.source in (first.source, second.source)
    window of_title as (
               partition by first.source, second.source, own.title
               order by own.listened_at, own.source
           )
),
linked as (
    select *,
           coalesce(
               source_before <> source
               and listened_at <= before + %(most_s)s * interval '1 second',
               false
           ) as is_linked
      from beside
),
run as (
    select *,
           count(*) filter (where not is_linked) over (
               partition by first_source, second_source, title
               order by listened_at, source
           ) as run
      from linked
),
numbered as (
    select *,
           row_number() over (
               partition by first_source, second_source, title, run
               order by listened_at, source
           ) as position
      from run
),
known_twice as (
    select *,
           row_number() over (
               partition by first_source, second_source
               order by listened_at desc, title
           ) as number
      from numbered
     where position %% 2 = 0
)
select first_source,
       second_source,
       count(*),
       json_agg(
           json_build_object(
               'artist', artist,
               'track', track,
               'first_at', svc.instant(case source when first_source then listened_at else before end),
               'second_at', svc.instant(case source when first_source then before else listened_at end)
           )
           order by number
       ) filter (where number <= %(examples)s)
  from known_twice
 group by first_source,
       second_source
 order by first_source,
       second_source
