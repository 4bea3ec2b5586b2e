-- The pull of calendars, in the session of its import.

-- name: remove_calendar_events
-- Removes the events of the connection within the window that its calendars no longer have.
select svc.remove_calendar_events(%(starts_at)s::timestamptz, %(ends_at)s::timestamptz, %(keys)s::text[])
