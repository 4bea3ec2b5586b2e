-- Fragments for statements that change accounts or grants: the statement puts its security events into
-- `new_event`, and `recorded` inserts them. So a change and its event are always committed together.

-- fragment: recorded
-- needs: new_event (client_id, event, grant_id, user_id)
-- gives: recorded (client_id, event, grant_id, user_id)
recorded as (
    insert into identity.security_event (user_id, event, client_id, grant_id, address, request_id)
    select user_id,
           event,
           client_id,
           grant_id,
           %(address)s,
           %(request_id)s
      from new_event
    returning event,
              user_id,
              client_id,
              grant_id
)

-- fragment: recorded_events
-- needs: recorded (client_id, event, grant_id, user_id)
select event,
       user_id,
       client_id,
       grant_id
  from recorded

-- name: failed_sign_in
-- Records a failed sign-in to an account, or to no account (a user id of zeros).
with new_event as (
    select 'sign_in_failed' as event,
           %(user_id)s::uuid as user_id,
           null::text as client_id,
           null::uuid as grant_id
),
--include recorded
--include recorded_events

-- name: event_page
-- The events of an account and its grants before one position, newest first, with the name of the API
-- token or application if that still exists.
select event.occurred_at,
       event.event_id,
       event.event,
       event.client_id,
       coalesce(grant_row.name, client.client_name, client.client_id) as title,
       event.address
  from identity.security_event as event
  left join oauth.grant as grant_row
    on grant_row.user_id = %(user_id)s
   and grant_row.grant_id = event.grant_id
  left join oauth.client
    on client.client_id = event.client_id
 where event.user_id = %(user_id)s
   and (event.occurred_at, event.event_id) < (%(occurred_at)s::timestamptz, %(event_id)s::uuid)
 order by event.occurred_at desc,
          event.event_id desc
 limit %(limit)s

-- name: events
-- The newest events of an account and its grants, newest first.
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
