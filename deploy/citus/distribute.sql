-- Moves the tables of svc to the nodes of a Citus cluster. Run it on the coordinator with psql, as a superuser, after
-- `svc migrate`, and again after each migration that adds a table (docs/CITUS.md). It may run again at any time: what has
-- been moved stays as it is. All tables are moved in one transaction, so a run that fails changes nothing. Servers that
-- wait for its locks answer 503 meanwhile.
\set ON_ERROR_STOP on

-- Each statement of a request sends its session to the nodes (`set local`). Policies look the token of the session up
-- where the rows are, which is a query of its own within one on a shard.
select run_command_on_all_nodes(
           format('alter database %I set citus.propagate_set_commands = ''local''', current_database())
       );
select run_command_on_all_nodes(
           format('alter database %I set citus.allow_nested_distributed_execution = on', current_database())
       );

begin;

-- One connection to each node: parallel ones could not see each other's new tables, whose foreign keys refer to them.
set local citus.multi_shard_modify_mode = 'sequential';

-- Where each table is kept: with its person ('user_id' decides on the node, the same for all these tables), as a copy
-- on every node, or on the coordinator alone. tests/deploy/test_citus.py holds this list against the schema.
create temporary table placement (
    place text not null,
    name  text not null
)
    on commit drop;
insert into placement (place, name)
select place,
       unnest(names)
  from (
           values ('person', array[
                      'identity.departed_user', 'identity.passkey', 'identity.password', 'identity.password_reset',
                      'identity.security_event', 'identity.session', 'identity.spent_challenge',
                      'oauth.grant', 'oauth.access_token', 'oauth.authorization_code', 'oauth.refresh_retry',
                      'oauth.refresh_token',
                      'activity.app_session', 'activity.app_time', 'activity.app_timeline', 'activity.attention',
                      'activity.attention_due', 'activity.beat',
                      'activity.category_rule', 'activity.category_score', 'activity.coding_session',
                      'activity.coding_time', 'activity.daily_summary', 'activity.device', 'activity.device_stream',
                      'activity.goal', 'activity.label', 'activity.raw_limit', 'activity.removed_day',
                      'activity.rollup_due', 'activity.screen_time', 'activity.summary_due',
                      'code.event',
                      'content.calendar', 'content.calendar_event', 'content.insight', 'content.play',
                      'content.recording', 'content.title', 'content.title_genre',
                      'health.bucket', 'health.cycle', 'health.heart_rate', 'health.message', 'health.metric',
                      'health.recovery', 'health.sample', 'health.sleep', 'health.sleep_stage', 'health.source',
                      'location.derivation_due', 'location.device', 'location.event', 'location.place',
                      'location.point',
                      'music.listen',
                      'profile.connection', 'profile.connection_secret', 'profile.import', 'profile.import_part',
                      'profile.import_refusal', 'profile.integration', 'profile.membership', 'profile.subscription',
                      'profile.team_membership', 'profile.upload'
                  ]),
                  -- Small, or found by something else than the person: an address, a key, a code.
                  ('copy', array[
                      'identity.user', 'identity.provider_identity', 'identity.provider_sign_in',
                      'oauth.client', 'oauth.authorization_request', 'oauth.device_authorization',
                      'profile.integration_key', 'profile.organization', 'profile.team',
                      'reference.category', 'reference.category_rule'
                  ]),
                  -- Work of the service. The worker claims the turns of all people with `skip locked`.
                  ('coordinator', array[
                      'identity.invitation', 'identity.provider_logout', 'identity.throttle',
                      'svc.applied_file', 'svc.schema_version', 'svc.turn', 'svc.upload_directory'
                  ])
       ) as placed (place, names);

create temporary table to_move
    on commit drop
    as
select place,
       name::regclass as name
  from placement
 where place <> 'coordinator'
   and name::regclass not in (select logicalrelid from pg_dist_partition);

-- A table cannot be moved while a foreign key joins it to one that has not been moved. So the keys are dropped here and
-- created again below.
create temporary table foreign_key
    on commit drop
    as
select conrelid::regclass as name,
       conname,
       pg_get_constraintdef(oid) as definition,
       -- A copy on every node cannot refer to rows that are on one of them. Connections are never deleted without
       -- their keys (svc.end_connection, svc.end_account), and a device's code is useless without its grant, and
       -- deleted after some minutes.
       (conrelid in (select name::regclass from placement where place = 'copy'))
           and (confrelid in (select name::regclass from placement where place = 'person')) as is_left_out
  from pg_constraint
 where contype = 'f'
   and conparentid = 0
   and (conrelid in (select name from to_move) or confrelid in (select name from to_move));

do $$
declare
    each record;
begin
    for each in select name, conname from foreign_key loop
        execute format('alter table %s drop constraint %I', each.name, each.conname);
    end loop;
    for each in select name from to_move where place = 'copy' loop
        perform create_reference_table(each.name);
    end loop;
    for each in select name from to_move where place = 'person' order by name <> 'oauth.grant'::regclass loop
        if each.name = 'oauth.grant'::regclass then
            perform create_distributed_table(each.name, 'user_id', colocate_with => 'none');
        else
            perform create_distributed_table(each.name, 'user_id', colocate_with => 'oauth.grant');
        end if;
    end loop;
    for each in select name, conname, definition from foreign_key where not is_left_out loop
        execute format('alter table %s add constraint %I %s', each.name, each.conname, each.definition);
    end loop;
    -- Policies and queries call these functions on the nodes.
    for each in
        select oid::regprocedure as name
          from pg_proc
         where pronamespace = 'svc'::regnamespace
           and prokind = 'f'
    loop
        perform create_distributed_function(each.name);
    end loop;
end
$$;

commit;
