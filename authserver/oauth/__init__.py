"""OAuth 2.0: registration, authorization, consent, tokens, and the life cycle of a grant."""
