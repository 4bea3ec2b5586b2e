-- Adds a node to the cluster and moves its share of the shards to it, while servers run:
--   psql -v host=node2.internal -v port=5432 -f deploy/citus/add_worker.sql
-- The last statement returns at once; citus_rebalance_status() says how far the move is.
\set ON_ERROR_STOP on
select citus_add_node(:'host', :port);
select citus_rebalance_start();
