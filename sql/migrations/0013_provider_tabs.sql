-- At sign-in, the browser's other tabs that are away at the provider are looked up by its session.
create index provider_sign_in_by_session on identity.provider_sign_in (session_hash);
