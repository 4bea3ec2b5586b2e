-- Usable from version 20 on.
-- Older code leaves the new column at null. It asks for consent to the dashboard each time, and gives it grants that do
-- not end with the sign-in session.

-- The sign-in session to which a grant of the dashboard belongs. The grant is deleted with the session, however that
-- ends. A session that is confirmed gets another hash, and its grants move along (authserver/people/sessions.sql).
alter table oauth.grant
    add column session_hash bytea,
    add constraint grant_of_a_session_is_to_a_client check (session_hash is null or client_id is not null),
    add constraint grant_ends_with_its_session
        foreign key (user_id, session_hash) references identity.session on delete cascade;
create index grant_by_session on oauth.grant (user_id, session_hash) where session_hash is not null;
