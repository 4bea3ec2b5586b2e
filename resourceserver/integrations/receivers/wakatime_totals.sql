-- What editors read beside coding time, which is the statement of the API (resourceserver/endpoints/coding.sql).

-- name: heartbeats
-- The first beats of one connection between two instants, in order.
select coalesce(
           json_agg(
               json_build_object(
                   'id', beat.beat_key,
                   'time', round(extract(epoch from beat.beat_at), 3),
                   'entity', beat.content->'entity',
                   'type', beat.content->'kind',
                   'category', beat.content->'category',
                   'project', beat.content->'project',
                   'branch', beat.content->'branch',
                   'language', beat.content->'language',
                   'is_write', coalesce((beat.content->>'is_write')::boolean, false),
                   'lines', beat.content->'lines',
                   'lineno', beat.content->'lineno',
                   'cursorpos', beat.content->'cursorpos',
                   'user_agent', beat.content->'user_agent',
                   'machine_name', beat.content->'device'
               )
               order by beat.beat_at,
                        beat.beat_key
           ),
           '[]'
       )
  from (
           select beat.beat_at,
                  beat.beat_key,
                  beat.content
             from activity.beat
            where beat.user_id = %(user_id)s
              and beat.import_id = %(import_id)s
              and beat.beat_at >= %(from)s
              and beat.beat_at < %(to)s
            order by beat.beat_at,
                     beat.beat_key
            limit %(most)s
       ) as beat
