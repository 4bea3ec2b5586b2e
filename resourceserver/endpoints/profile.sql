-- name: token
-- The token of the session.
--include answer
select row_to_json(described) as data
  from (
           select kind,
                  scopes,
                  resource,
                  name,
                  application,
                  svc.instant(created_at) as created_at,
                  svc.instant(expires_at) as expires_at
             from svc.session_token(%(user_id)s)
       ) as described
--include end_of_answer

-- name: me
-- The caller's profile.
--include answer
select row_to_json(profile) as data
  from (
           select user_id as id,
                  email,
                  display_name,
                  timezone,
                  is_admin,
                  week_starts_on,
                  svc.instant(created_at) as created_at
             from identity.user
            where user_id = %(user_id)s
       ) as profile
--include end_of_answer

-- fragment: connected_rows
-- `row_of_connection`: the connections of a person, present and former.
-- gives: row_of_connection (connected, connected_at, first_record_at, gaps, kind, last_error, last_record_at, last_sync_at,
--     problem, provider, refused, status, via)
row_of_connection as (
    select provider,
           kind,
           'connection' as via,
           null::text as name,
           status in ('active', 'error') as connected,
           status,
           svc.instant(connected_at) as connected_at,
           svc.instant(last_sync_at) as last_sync_at,
           null::text as first_record_at,
           null::text as last_record_at,
           null::json as gaps,
           null::bigint as refused,
           last_error,
           null::text as problem
      from profile.integration
     where user_id = %(user_id)s
     union all
    select connection.kind,
           connection.data,
           case
               -- Those that send (shared/connections.py); from the others the worker pulls.
               when connection.kind in ('wakatime', 'listenbrainz', 'owntracks', 'overland', 'osmand', 'health')
                   then 'receiver'
               else 'connection'
           end,
           connection.name,
           connection.stopped_at is null and connection.paused_at is null and not connection.is_refused,
           case state.name
               when 'failing' then 'error'
               when 'refused' then 'expired'
               when 'waiting' then 'active'
               when 'live' then 'active'
               else 'disconnected'
           end,
           svc.instant(connection.created_at),
           -- A pull that failed brought nothing.
           svc.instant(
               greatest(
                   case when connection.problem is null then connection.last_pull_at end,
                   connection.last_record_at
               )
           ),
           svc.instant(received.first_at),
           svc.instant(received.last_at),
           null,
           received.refused,
           connection.problem,
           case when connection.problem is not null then concat('since ', svc.instant(connection.failing_since)) end
      from profile.connection,
           lateral (
               select svc.connection_state(
                          connection.stopped_at,
                          connection.paused_at,
                          connection.is_refused,
                          connection.problem,
                          connection.last_record_at
                      ) as name
           ) as state,
           lateral (
               select min(part.first_at) as first_at,
                      max(part.last_at) as last_at,
                      coalesce(sum(part.refused), 0)::bigint as refused
                 from profile.import_part as part
                where part.user_id = %(user_id)s
                  and part.import_id = connection.import_id
           ) as received
     where connection.user_id = %(user_id)s
       -- Of one that ended without records, or together with them, nothing is left.
       and (
               connection.stopped_at is null
               or connection.record_count > 0
              and not exists (
                      select
                        from profile.import
                       where import.user_id = %(user_id)s
                         and import.import_id = connection.import_id
                         and import.status = 'undone'
                  )
           )
),

-- name: integrations
-- Where data comes from: connections and receivers, present and former, files that were brought, and trackers if the token may read
-- activity. The columns are listed, so that no secret column can be added by accident. Texts of receipts may quote a
-- file, so an answer has only codes of them.
--include answer
with
-- The imports of each source that were not removed again, with what their files cover.
brought as materialized (
    select part.source,
           import.import_id,
           import.status,
           import.started_at,
           import.finished_at,
           mode() within group (order by part.kind) as kind,
           min(part.first_at) as first_at,
           max(part.last_at) as last_at,
           range_agg(tstzrange(part.first_at, part.last_at, '[]'))
               filter (where part.first_at is not null) as covered,
           sum(part.records)::bigint as records,
           sum(part.added)::bigint as added,
           sum(part.known)::bigint as known,
           sum(part.changed)::bigint as changed,
           sum(part.refused)::bigint as refused,
           count(*) as files,
           count(part.problem) as files_cut_short
      from profile.import
      join profile.import_part as part
        on part.user_id = %(user_id)s
       and part.import_id = import.import_id
     where import.user_id = %(user_id)s
       and import.status <> 'undone'
       and import.connection_id is null
       and part.source is not null
     group by part.source,
              import.import_id,
              import.status,
              import.started_at,
              import.finished_at
),
newest as (
    select distinct on (source)
           source,
           import_id,
           status,
           records,
           added,
           known,
           changed,
           refused,
           files,
           files_cut_short
      from brought
     order by source,
              started_at desc,
              import_id
),
error_of_file as (
    select newest.source,
           newest.refused,
           json_build_object(
               'read', newest.records,
               'new', newest.added,
               'known', newest.known,
               'changed', newest.changed,
               'refused', newest.refused
           ) as records,
           case
               when newest.status = 'interrupted' then 'interrupted'
               when newest.files_cut_short > 0 then 'unreadable'
               when newest.refused > 0
                   then (
                            select refusal.reason
                              from profile.import_refusal as refusal
                              join profile.import_part as part
                                on part.user_id = %(user_id)s
                               and part.import_id = refusal.import_id
                               and part.name = refusal.name
                             where refusal.user_id = %(user_id)s
                               and refusal.import_id = newest.import_id
                               and part.source = newest.source
                             group by refusal.reason
                             order by sum(refusal.count) desc,
                                      refusal.reason collate "C"
                             limit 1
                        )
           end as last_error,
           -- No text of the receipt, which may quote the file.
           concat_ws(
               '; ',
               case
                   when newest.status = 'interrupted'
                       then 'the import was interrupted, and continues if the same file is imported again'
               end,
               case
                   when newest.files_cut_short > 0
                       then concat(
                                newest.files_cut_short,
                                ' of ',
                                newest.files,
                                ' files could not be read to the end'
                            )
               end,
               case
                   when newest.refused > 0
                       then concat(
                                newest.refused,
                                ' of ',
                                newest.records,
                                ' records were refused'
                            )
               end
           ) as problem
      from newest
),
file as (
    select source,
           mode() within group (order by kind) as kind,
           max(coalesce(finished_at, started_at)) as last_sync_at,
           min(first_at) as first_at,
           max(last_at) as last_at,
           range_agg(covered) as covered
      from brought
     group by source
),
row_of_file as (
    select file.source as provider,
           coalesce(file.kind, 'other') as kind,
           'import' as via,
           null::text as name,
           false as connected,
           'disconnected' as status,
           null::text as connected_at,
           svc.instant(file.last_sync_at) as last_sync_at,
           svc.instant(file.first_at) as first_record_at,
           svc.instant(file.last_at) as last_record_at,
           (
               select coalesce(
                          json_agg(
                              json_build_object(
                                  'starts_at', svc.instant(longest.starts_at),
                                  'ends_at', svc.instant(longest.ends_at)
                              )
                              order by longest.starts_at
                          ),
                          '[]'
                      )
                 from (
                          select lower(stretch) as starts_at,
                                 upper(stretch) as ends_at
                            from unnest(
                                     tstzmultirange(tstzrange(file.first_at, file.last_at, '[]'))
                                     - file.covered
                                 ) as stretch
                           where upper(stretch) - lower(stretch) > interval '1 day'
                           order by upper(stretch) - lower(stretch) desc,
                                    lower(stretch)
                           limit 3
                      ) as longest
           ) as gaps,
           error_of_file.refused,
           error_of_file.last_error,
           nullif(error_of_file.problem, '') as problem,
           error_of_file.records
      from file
      join error_of_file using (source)
),
row_of_tracker as (
    select coalesce(stream.source, 'unknown') as provider,
           'activity' as kind,
           'tracker' as via,
           null::text as name,
           max(stream.last_sync_at) > now() - interval '24 hours' as connected,
           case
               when max(stream.last_sync_at) > now() - interval '24 hours' then 'active'
               else 'disconnected'
           end as status,
           svc.instant(min(device.first_seen_at)) as connected_at,
           svc.instant(max(stream.last_sync_at)) as last_sync_at,
           svc.instant(min(stream.first_event_at)) as first_record_at,
           svc.instant(max(stream.last_event_at)) as last_record_at,
           null::json as gaps,
           null::bigint as refused,
           null::text as last_error,
           null::text as problem
      from activity.device_stream as stream
      join activity.device as device
        on device.user_id = %(user_id)s
       and device.device_id = stream.device_id
     where stream.user_id = %(user_id)s
       and 'read:activity' = any (string_to_array(current_setting('svc.scopes'), ' '))
       and stream.event_count > 0
       -- Imports alone leave this null.
       and stream.last_sync_at is not null
     group by stream.source
     order by max(stream.last_sync_at) desc,
              stream.source collate "C"
     limit 50
),
--include connected_rows
row as (
    select *,
           null::json as records
      from row_of_connection
     union all
    select * from row_of_file
     union all
    select *,
           null::json
      from row_of_tracker
)
select coalesce(json_agg(row order by provider collate "C", via, connected_at, name collate "C"), '[]') as data,
       count(*) as count
  from row
--include end_of_answer

-- name: orgs
-- The organizations to which the caller belongs.
--include answer
with row as (
    select organization.organization_id as id,
           organization.name,
           organization.slug,
           membership.role,
           svc.instant(membership.joined_at) as joined_at
      from profile.membership as membership
      join profile.organization as organization using (organization_id)
     where membership.user_id = %(user_id)s
)
select coalesce(json_agg(row order by name collate "C", slug collate "C"), '[]') as data,
       count(*) as count
  from row
--include end_of_answer

-- name: teams
-- The teams to which the caller belongs.
--include answer
with row as (
    select team.team_id as id,
           team.name,
           json_build_object(
               'id', organization.organization_id,
               'name', organization.name
           ) as organization,
           team_membership.role,
           svc.instant(team_membership.joined_at) as joined_at
      from profile.team_membership as team_membership
      join profile.team as team using (team_id)
      join profile.organization as organization using (organization_id)
     where team_membership.user_id = %(user_id)s
)
select coalesce(json_agg(row order by name collate "C", id), '[]') as data,
       count(*) as count
  from row
--include end_of_answer

-- name: subscription
-- The caller's subscription. An account without one is of a person who runs the service themselves.
--include answer
select row_to_json(state) as data
  from (
           select coalesce(subscription.plan, 'self_hosted') as plan,
                  coalesce(subscription.status, 'active') as status,
                  coalesce(subscription.billing, 'none') as billing,
                  subscription.interval,
                  svc.instant(subscription.current_period_start) as current_period_start,
                  svc.instant(subscription.current_period_end) as current_period_end,
                  coalesce(subscription.cancel_at_period_end, false) as cancel_at_period_end,
                  svc.instant(subscription.trial_ends_at) as trial_ends_at,
                  coalesce(subscription.seats, 1) as seats
             from (select %(user_id)s::uuid as user_id) as caller
             left join profile.subscription as subscription
               on subscription.user_id = %(user_id)s
       ) as state
--include end_of_answer
