"""The authorization server: accounts, sign-in, consent, grants and tokens (OAuth 2.0)."""
