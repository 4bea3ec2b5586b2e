-- Which session a session took the place of, where it was the same person's. Forms that were opened before
-- somebody confirmed who they are can be sent after it.
alter table identity.session add column previous_hash bytea;
