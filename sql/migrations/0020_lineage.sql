-- Usable from version 20 on.
-- Refresh tokens that name their grant, under a signature. A replay of such a token is recognised without its
-- row, so the row of a rotated one need not be kept until the token would have expired. Older code would not
-- recognise it.
alter table oauth.refresh_token add column names_grant boolean not null default false;

create index refresh_token_by_rotation on oauth.refresh_token (rotated_at)
    where rotated_at is not null and names_grant;
