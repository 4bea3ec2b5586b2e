"""The operator's commands about people, applications and grants, and the one that serves."""
