-- Moves all shards from a node to the others, while servers run, and takes the node out of the cluster:
--   psql -v host=node2.internal -v port=5432 -f deploy/citus/drain_worker.sql
-- It ends when the last shard has been moved. A run that was interrupted continues where it stopped.
\set ON_ERROR_STOP on
select citus_drain_node(:'host', :port);
select citus_remove_node(:'host', :port);
