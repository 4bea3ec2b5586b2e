-- When all sign-ins of a person were ended last: with another password, or on purpose. A sign-in that
-- began before must not be completed after, so it compares what it saw then.
alter table identity.user add column signed_out_at timestamptz;
