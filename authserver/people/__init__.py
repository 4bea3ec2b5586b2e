"""People: their accounts, authentication and sign-in sessions."""
