"""The operator's commands about people, applications and grants, and the command that runs the server."""
