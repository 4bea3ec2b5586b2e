"""People: their accounts, how they prove who they are, and their sign-in sessions."""
