-- Usable from version 20 on.
-- What the janitor removes is searched by time alone, so that a run reads no more than it removes, however many people
-- have sent messages.
create index message_by_received_at on health.message (received_at);
create index sleep_stage_by_received_at on health.sleep_stage (received_at);
