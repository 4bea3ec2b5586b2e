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

-- name: integrations
-- Present and former integrations. The columns are listed, so that no secret column can be added by accident.
--include answer
with row as (
    select provider,
           kind,
           status in ('active', 'error') as connected,
           status,
           svc.instant(connected_at) as connected_at,
           svc.instant(last_sync_at) as last_sync_at,
           last_error
      from profile.integration
     where user_id = %(user_id)s
)
select coalesce(json_agg(row order by provider collate "C"), '[]') as data,
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
