-- What statements that change something about security have in common: they say what happened, in rows
-- of `happened`, and the same statement writes it down. So nothing happens unnoted, and nothing is noted
-- that did not happen.

-- fragment: noted
noted as (
    insert into identity.security_event (user_id, event, client_id, grant_id, address, request_id)
    select user_id,
           event,
           client_id,
           grant_id,
           %(address)s,
           %(request_id)s
      from happened
    returning event,
              user_id,
              client_id,
              grant_id
)

-- fragment: told
select event,
       user_id,
       client_id,
       grant_id
  from noted

-- name: failed_sign_in
-- Somebody named this account, or none (a user id of zeros), and did not have its password.
with happened as (
    select 'sign_in_failed' as event,
           %(user_id)s::uuid as user_id,
           null::text as client_id,
           null::uuid as grant_id
),
--include noted
--include told

-- name: stories
-- What happened to one account and its grants before one event, newest first, with the name of the API
-- token or application that it was about, where there still is one.
select event.occurred_at,
       event.event_id,
       event.event,
       event.client_id,
       coalesce(bond.name, client.client_name, client.client_id) as title,
       event.address
  from identity.security_event as event
  left join oauth.grant as bond
    on bond.user_id = %(user_id)s
   and bond.grant_id = event.grant_id
  left join oauth.client
    on client.client_id = event.client_id
 where event.user_id = %(user_id)s
   and (event.occurred_at, event.event_id) < (%(occurred_at)s::timestamptz, %(event_id)s::uuid)
 order by event.occurred_at desc,
          event.event_id desc
 limit %(limit)s

-- name: events
-- What happened to one account and its grants, newest first.
select occurred_at,
       event,
       client_id,
       grant_id,
       address,
       request_id
  from identity.security_event
 where user_id = %(user_id)s
 order by occurred_at desc,
          event_id desc
 limit %(limit)s
