"""Export: everything of one person that a token opens, in one file."""
