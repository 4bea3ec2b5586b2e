-- Usable from version 20 on.
-- Newer code reads these columns and calls svc.try_rules. Older code goes on using a rule that is switched off.

-- The trial of an expression (svc.reading_us): microseconds for a title of 1,024 letters. Null: no expression, or an
-- expression without a trial, which a job makes up for.
alter table activity.category_rule
    add column reading_us integer,
    add column switched_off_at timestamptz,
    add constraint category_rule_switched_off_year_has_four_digits check (
        switched_off_at between '0001-01-01 00:00:00+00' and '9999-12-31 23:59:59.999+00'
    );

create index category_rule_without_trial on activity.category_rule (user_id)
    where match = 'regex' and reading_us is null;

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
            'replay_detected',
            'rules_switched_off'
        )
    );
