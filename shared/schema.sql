-- name: check_version
-- Raises an error if the version of the code does not fit the schema (sql/functions/versions.sql).
select svc.check_version(%(version)s)
