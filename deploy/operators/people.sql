-- What operators record about people: goals, organizations and teams. Each command is one transaction with
-- the rights of the owner of the tables.

-- name: become_owner
-- Gives the following statements the rights of the owner of the tables.
set role svc_owner

-- name: account
-- The account with an address; no row: there is none.
select user_id
  from identity.user
 where email = %(email)s

-- name: timezone
-- The time zone of a person.
select timezone
  from identity.user
 where user_id = %(user_id)s

-- name: person_of_import
-- The person of an import; no row: there is no such import.
select user_id
  from profile.import
 where import_id = %(import_id)s

-- name: accounts
-- All accounts with their addresses.
select user_id,
       email
  from identity.user
 order by user_id

-- name: add_goal
-- Adds a goal.
insert into activity.goal (
    user_id,
    title,
    metric,
    comparison,
    target,
    period,
    days_of_week,
    categories,
    apps,
    projects,
    languages
)
values (
    %(user_id)s,
    %(title)s,
    %(metric)s,
    %(comparison)s,
    %(target)s,
    %(period)s,
    %(days_of_week)s,
    %(categories)s,
    %(apps)s,
    %(projects)s,
    %(languages)s
)
returning goal_id

-- name: goals
-- A person's goals, the oldest first.
select goal_id,
       title,
       metric,
       comparison,
       target,
       period,
       days_of_week,
       categories || apps || projects || languages as filters
  from activity.goal
 where user_id = %(user_id)s
 order by created_at,
          goal_id

-- name: remove_goal
-- Removes a goal; no row: there is none.
delete
  from activity.goal
 where user_id = %(user_id)s
   and goal_id = %(goal_id)s
returning title

-- name: add_organization
-- Adds an organization; no row: another organization has its slug.
insert into profile.organization (name, slug)
values (%(name)s, %(slug)s)
    on conflict (slug) do nothing
returning organization_id

-- name: organizations
-- All organizations, with the number of their teams, and their members.
select organization.slug,
       organization.name,
       (
           select count(*)
             from profile.team
            where team.organization_id = organization.organization_id
       ) as teams,
       (
           select coalesce(
                      array_agg(person.email || ' (' || membership.role || ')' order by person.email),
                      '{}'
                  )
             from profile.membership
             join identity.user as person using (user_id)
            where membership.organization_id = organization.organization_id
       ) as members
  from profile.organization
 order by organization.slug collate "C"

-- name: remove_organization
-- Removes an organization with its teams; no row: there is none.
delete
  from profile.organization
 where slug = %(slug)s
returning name

-- name: set_member
-- Adds a person to an organization, or changes a member's role; no row: there is no such organization.
insert into profile.membership (user_id, organization_id, role)
select %(user_id)s,
       organization_id,
       %(role)s
  from profile.organization
 where slug = %(slug)s
    on conflict (user_id, organization_id) do update
   set role = excluded.role
returning role

-- name: remove_member
-- Removes a person from an organization and its teams; no row: the person was not a member.
with organization as (
    select organization_id
      from profile.organization
     where slug = %(slug)s
),
left_team as (
    delete
      from profile.team_membership
     using profile.team
     where team_membership.user_id = %(user_id)s
       and team_membership.team_id = team.team_id
       and team.organization_id in (select organization_id from organization)
    returning team_membership.role
),
left_organization as (
    delete
      from profile.membership
     where user_id = %(user_id)s
       and organization_id in (select organization_id from organization)
    returning role
)
select role
  from left_organization
 union all
select role
  from left_team
 limit 1

-- name: add_team
-- Adds a team to an organization; no row: there is no such organization, or it has such a team already.
insert into profile.team (organization_id, name)
select organization_id,
       %(name)s
  from profile.organization
 where slug = %(slug)s
    on conflict (organization_id, name) do nothing
returning team_id

-- name: teams
-- The teams of one organization, or of all, with their members.
select organization.slug,
       team.name,
       (
           select coalesce(
                      array_agg(person.email || ' (' || belongs.role || ')' order by person.email),
                      '{}'
                  )
             from profile.team_membership as belongs
             join identity.user as person using (user_id)
            where belongs.team_id = team.team_id
       ) as members
  from profile.team
  join profile.organization using (organization_id)
 where %(slug)s::text is null
    or organization.slug = %(slug)s::text
 order by organization.slug collate "C",
          team.name collate "C"

-- name: remove_team
-- Removes a team; no row: there is none.
delete
  from profile.team
 using profile.organization
 where organization.organization_id = team.organization_id
   and organization.slug = %(slug)s
   and team.name = %(name)s
returning team.name

-- name: set_team_member
-- Adds a person to a team, or changes a member's role; no row: there is no such team.
insert into profile.team_membership (user_id, team_id, role)
select %(user_id)s,
       team.team_id,
       %(role)s
  from profile.team
  join profile.organization using (organization_id)
 where organization.slug = %(slug)s
   and team.name = %(name)s
    on conflict (user_id, team_id) do update
   set role = excluded.role
returning role

-- name: remove_team_member
-- Removes a person from a team; no row: the person was not a member.
delete
  from profile.team_membership as belongs
 using profile.team
  join profile.organization using (organization_id)
 where belongs.user_id = %(user_id)s
   and belongs.team_id = team.team_id
   and organization.slug = %(slug)s
   and team.name = %(name)s
returning belongs.role

-- name: removed_before
-- The day before which a person's sessions have been removed because of their age; no row: none has.
select removed_before::text
  from activity.raw_limit
 where user_id = %(user_id)s
   and removed_before is not null
