-- Reads on a streaming replica: which state of the primary it must have, and whether it has that (shared/replica.py).
-- May run again at any time.

-- The cluster of this server, the timeline of its log, and the end of the log on its disk. A replica that has replayed
-- the log up to there has all transactions that are visible here and were acknowledged: a commit waits until it is on
-- the disk before others see it. Rollups, summaries and the batches of a running import do not wait, so a replica may
-- get these a moment later; what they lead to waits.
-- All are null on a server that cannot be a primary: it is in recovery, or no commit waits there. Only `log_end` is null
-- if the log on the disk ends with a page, because the last record is then cut, and a replica cannot replay it. This
-- lasts until the next commit, or for 15 s on a server where nothing commits.
create or replace function svc.log_position(
    out cluster  bigint,
    out timeline integer,
    out log_end  pg_lsn
)
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if pg_is_in_recovery() or current_setting('synchronous_commit') = 'off' then
        return;
    end if;
    select system_identifier into strict cluster from pg_control_system();
    log_end := pg_current_wal_flush_lsn();
    timeline := ('x' || left(pg_walfile_name(log_end), 8))::bit(32)::integer;
    if mod(log_end - '0/0', current_setting('wal_block_size')::numeric) = 0 then
        log_end := null;
    end if;
end
$$;

-- Returns once this server has replayed the log of `p_cluster` on `p_timeline` up to `p_log_end`; the snapshot of a
-- later transaction, or of a later statement with a snapshot of its own, has everything up to there.
-- Raises 57SV3 if this server is no replica of that primary, and 57SV4 if it has not got so far after `p_wait_ms`.
-- The control file has a new timeline after a failover from the first restartpoint on, or earlier.
create or replace function svc.await_replay(
    p_cluster  bigint,
    p_timeline integer,
    p_log_end pg_lsn,
    p_wait_ms  integer
)
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    own_cluster  bigint;
    own_timeline integer;
    ends_at      timestamptz;
begin
    if not pg_is_in_recovery() then
        raise exception using errcode = '57SV3', message = 'the server is not in recovery';
    end if;
    select system_identifier into strict own_cluster from pg_control_system();
    if own_cluster is distinct from p_cluster then
        raise exception using errcode = '57SV3', message = 'the server belongs to another cluster';
    end if;
    select greatest(saved.timeline_id, reached.min_recovery_end_timeline)
      into strict own_timeline
      from pg_control_checkpoint() as saved,
           pg_control_recovery() as reached;
    if own_timeline is distinct from p_timeline then
        raise exception using
            errcode = '57SV3',
            message = format('the server is on timeline %s, and the primary on %s', own_timeline, p_timeline);
    end if;
    while pg_last_wal_replay_lsn() < p_log_end loop
        ends_at := coalesce(ends_at, clock_timestamp() + make_interval(secs => p_wait_ms / 1000.0));
        if clock_timestamp() >= ends_at then
            raise exception using errcode = '57SV4', message = 'the server has not replayed the log so far';
        end if;
        perform pg_sleep(0.001);
    end loop;
end
$$;
