-- The upload of a ticket. Each function looks the ticket up, checks the version, and is executed by the ingester
-- (sql/functions/uploads.sql).

-- name: find
-- The upload of a ticket; no row: there is no such ticket.
select upload_id,
       status,
       coalesce(length, 0),
       received,
       is_valid
  from svc.find_upload(%(user_id)s, %(ticket_hash)s, %(version)s)

-- name: begin_upload
-- Begins an upload; the value is the outcome.
select svc.begin_upload(
    %(user_id)s,
    %(ticket_hash)s,
    %(file_name)s,
    %(format)s,
    %(length)s,
    %(most_bytes)s,
    %(may_restart)s,
    %(version)s
)

-- name: advance
-- Notes how much of an upload is here; the value is its new status, null if nothing was noted.
select svc.advance_upload(
    %(user_id)s,
    %(ticket_hash)s,
    %(before)s,
    %(received)s,
    %(length)s,
    %(version)s
)

-- name: release
-- Gives the ticket of an upload back that broke off and cannot be continued.
select svc.release_upload(%(user_id)s, %(ticket_hash)s, %(version)s)
