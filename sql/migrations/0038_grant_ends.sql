-- Usable from version 20 on.
-- Older code gives no grant an end. It issues tokens for longer than a grant with an end, which are refused after it.

-- When a grant of an application ends whatever happens, if its person chose that at consent.
alter table oauth.grant
    add column expires_at timestamptz,
    add constraint grant_with_an_end_is_to_a_client check (expires_at is null or client_id is not null);
