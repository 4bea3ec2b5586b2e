-- Accounts that end. What somebody signs in with, and all that opens their data, goes in one transaction;
-- the data itself may be millions of rows and goes afterwards, a batch at a time (deletion.sql).

-- People whose account is gone, for as long as anything of theirs may still be found.
create table identity.departed_user (
    user_id    uuid        not null,
    deleted_at timestamptz not null default now(),
    constraint departed_user_pkey primary key (user_id)
);

-- No table outside of identity and oauth refers to accounts. With a foreign key the end of an account would
-- have to wait for each of its rows, or for a tracker that is just sending some, and would hold locks all
-- that time. Nothing rests on the key: rows are reached by an open session alone, which needs a live token,
-- and that is gone at once. A tracker's transaction under way may still leave rows behind; they are found.
alter table activity.device
    drop constraint device_is_of_a_user;

alter table identity.security_event
    drop constraint security_event_is_a_known_one,
    add constraint security_event_is_a_known_one check (
        event in (
            'account_created',
            'account_deleted',
            'signed_in',
            'sign_in_failed',
            'signed_out',
            'password_changed',
            'passkey_added',
            'passkey_removed',
            'passkey_refused',
            'provider_connected',
            'provider_disconnected',
            'consented',
            'token_created',
            'revoked',
            'replay_detected'
        )
    );
