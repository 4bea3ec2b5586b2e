-- Usable from version 20 on.
-- Older code records none of these events. Its page of what happened cannot describe them.

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
            'rules_switched_off',
            'connection_added',
            'connection_key_renewed',
            'connection_ended'
        )
    );
