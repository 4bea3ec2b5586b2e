-- Usable from version 20 on.
-- Older code reads null as a tracker that is not active, and replaces it when the tracker sends something.

-- When a tracker last sent something for a device; null if only imports brought its sessions.
alter table activity.device_stream alter column last_sync_at drop not null;
