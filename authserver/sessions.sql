-- name: session
-- Who is signed in with a session, which is used herewith; no row: nobody is. It is written to once an
-- hour at most, so that looking at pages costs no writes.
with used as (
    update identity.session
       set seen_at = now()
     where user_id = %(user_id)s
       and session_hash = %(session_hash)s
       and seen_at > now() - %(idle_lifetime)s
       and seen_at < now() - interval '1 hour'
    returning user_id
)
select person.user_id,
       person.email,
       person.display_name,
       person.is_admin,
       session.authenticated_at,
       exists (select from used) as was_refreshed
  from identity.session
  join identity.user as person using (user_id)
 where session.user_id = %(user_id)s
   and session.session_hash = %(session_hash)s
   and session.seen_at > now() - %(idle_lifetime)s

-- name: open_session
-- Signs a person in in one browser.
insert into identity.session (user_id, session_hash, user_agent, address)
values (%(user_id)s, %(session_hash)s, %(user_agent)s, %(address)s)

-- name: close_session
-- Signs a person out in one browser.
delete from identity.session
 where user_id = %(user_id)s
   and session_hash = %(session_hash)s
