-- All rights of the roles: every grant and revoke of the schema. May run again at any time.

-- New objects belong to the owner alone until a line below grants a right.
alter default privileges revoke execute on functions from public;
revoke all on all functions in schema svc from public, svc_reader, svc_ingester, svc_importer, svc_authserver, svc_worker;
revoke all on all procedures in schema svc from public, svc_reader, svc_ingester, svc_importer, svc_authserver, svc_worker;

-- The authorization server: accounts and grants, no activity data.
grant usage on schema identity, oauth to svc_authserver;
-- Accounts are deleted by a function that requires a fresh sign-in (deletion.sql).
revoke delete on identity.user from svc_authserver;
grant select, insert, update on identity.user to svc_authserver;
grant select, insert, update, delete on identity.password, identity.session to svc_authserver;
grant select, insert, update, delete on identity.invitation to svc_authserver;
grant select, insert, update, delete on identity.throttle to svc_authserver;
grant select, insert, update, delete
    on identity.passkey,
       identity.spent_challenge,
       identity.password_reset
    to svc_authserver;
grant select on identity.way_in to svc_authserver;
grant select, insert, update, delete
    on identity.provider_identity,
       identity.provider_sign_in,
       identity.provider_logout
    to svc_authserver;
-- Security events cannot be changed, and only old ones can be deleted.
grant select, insert on identity.security_event to svc_authserver;
grant usage on schema svc to svc_authserver;
grant execute
    on function svc.check_version,
                svc.limit_page,
                svc.lock_provider_session
    to svc_authserver;
grant execute
    on function svc.forget_security_events,
                svc.forget_beats,
                svc.forget_health,
                svc.delete_account,
                svc.forget_departed,
                svc.try_rules,
                svc.mark_all_summaries
    to svc_authserver;
-- Uploads of files: tickets require a fresh sign-in, the others a sign-in of the person (uploads.sql).
grant execute
    on function svc.create_upload,
                svc.renew_upload,
                svc.uploads,
                svc.cancel_upload
    to svc_authserver;
-- Each of these functions checks the sign-in of its person (categories.sql, goals.sql, devices.sql).
grant execute
    on function svc.category_rules,
                svc.category_scores,
                svc.uncategorized_time,
                svc.preview_category_rule,
                svc.add_category_rule,
                svc.switched_off_rules,
                svc.replace_category_rule,
                svc.remove_category_rule,
                svc.move_category_rule,
                svc.score_category
    to svc_authserver;
grant execute
    on function svc.goals,
                svc.put_goal,
                svc.switch_goal,
                svc.remove_goal,
                svc.devices,
                svc.rename_device,
                svc.retire_device
    to svc_authserver;
-- The same for the size of an export (export_rows.sql).
grant execute on function svc.export_rows to svc_authserver;
-- The same for the imports of a person; to undo one requires a fresh sign-in (import_list.sql, undo.sql).
grant execute on function svc.imports, svc.request_undo to svc_authserver;
-- Connections: the list requires a sign-in of the person; what begins or ends one, a fresh one (connections.sql).
grant execute
    on function svc.connections,
                svc.add_connection,
                svc.renew_connection_key,
                svc.renew_connection_secrets,
                svc.pause_connection,
                svc.change_connection_settings,
                svc.pull_now,
                svc.end_connection
    to svc_authserver;
grant select, insert, update, delete
    on oauth.client,
       oauth.authorization_request,
       oauth.device_authorization,
       oauth.grant,
       oauth.authorization_code,
       oauth.refresh_token,
       oauth.access_token
    to svc_authserver;
-- Answers never change. Locking them requires the right to update.
grant select, insert, update (expires_at), delete on oauth.refresh_retry to svc_authserver;
grant select on oauth.live_access_token, oauth.live_grant to svc_authserver;

-- The resource server, reading. `svc.secure_user_table` grants select on each table of user data.
grant usage
    on schema svc, identity, reference, activity, code, health, music, location, content, profile
    to svc_reader;
grant execute on procedure svc.open_session, svc.open_token_session, svc.open_reading_key to svc_reader;
grant execute on function svc.limit_answer, svc.log_position, svc.await_replay to svc_reader;
-- An export locks it before its snapshot is taken (resourceserver/export/export.sql).
grant select on svc.schema_version to svc_reader;
grant execute
    on function svc.check_version,
                svc.session_user_id,
                svc.session_token,
                svc.instant,
                svc.duration_ms,
                svc.percent,
                svc.rounded,
                svc.degrees,
                svc.distance_m,
                svc.productivity,
                svc.day_start,
                svc.days,
                svc.hours,
                svc.cover,
                svc.owned_segments,
                svc.owned_parts,
                svc.switches,
                svc.focus_streaks,
                svc.cursor,
                svc.matches,
                svc.category_of_site,
                svc.pending_days
    to svc_reader;
grant select on reference.category, reference.category_rule to svc_reader;
grant select on profile.organization, profile.team to svc_reader;
-- Of connections, what their person sees; no setting and no progress, which may say where an account is.
grant execute on function svc.connection_state to svc_reader;
grant select (
          user_id,
          connection_id,
          kind,
          data,
          name,
          import_id,
          created_at,
          first_record_at,
          last_record_at,
          record_count,
          problem,
          failing_since,
          is_refused,
          paused_at,
          stopped_at,
          last_pull_at
      )
    on profile.connection
    to svc_reader;

-- The resource server, writing: it inserts the events of trackers. Of sessions it can read only the keys, to
-- recognise the new ones.
grant usage on schema svc, activity to svc_ingester;
grant execute on procedure svc.open_session, svc.open_token_session to svc_ingester;
grant execute on function svc.session_user_id, svc.lock_new_devices to svc_ingester;
grant select (user_id, device_id, name, platform), insert, update (platform)
    on activity.device
    to svc_ingester;
revoke select on activity.app_session, activity.coding_session from svc_ingester;
grant select (idempotency_key), insert on activity.app_session, activity.coding_session to svc_ingester;
grant select (user_id, date, marked_at), insert, update (marked_at)
    on activity.summary_due
    to svc_ingester;
grant select (user_id, date), insert, update (marked_at, is_left_raw)
    on activity.rollup_due
    to svc_ingester;
grant select, insert, update (source, last_sync_at, first_event_at, last_event_at, event_count)
    on activity.device_stream
    to svc_ingester;
-- Before which day it accepts no sessions.
grant select on activity.raw_limit to svc_ingester, svc_importer;
-- Where it leaves work for the worker, it makes the person's turn due.
grant execute on function svc.make_due to svc_ingester, svc_importer;
grant select, insert, update (due_at) on svc.turn to svc_ingester, svc_importer;
-- Uploads: each function looks the ticket up (uploads.sql).
grant execute
    on function svc.find_upload,
                svc.begin_upload,
                svc.advance_upload,
                svc.release_upload
    to svc_ingester;

-- Imports: they insert and change the records of integrations, and read what they have written.
grant usage
    on schema svc, activity, code, health, music, location, content, profile
    to svc_importer;
grant execute on procedure svc.open_import, svc.open_receiver to svc_importer;
-- What a receiver notes of the connection whose session is open.
grant execute on function svc.lock_connection, svc.note_delivery to svc_importer;
grant execute on function svc.check_version, svc.import_user_id, svc.lock_new_devices to svc_importer;
-- What a pull removes of what it has brought (calendar_pull.sql).
grant execute on function svc.remove_calendar_events to svc_importer;
grant select, insert, update
    on activity.screen_time,
       code.event,
       health.source,
       health.metric,
       health.sample,
       health.heart_rate,
       health.sleep,
       health.recovery,
       health.cycle,
       health.bucket,
       music.listen,
       location.device,
       location.point,
       location.place,
       location.event,
       content.recording,
       content.title,
       content.title_genre,
       content.play,
       content.calendar,
       content.calendar_event,
       profile.import_part,
       profile.import_refusal
    to svc_importer;
grant select, update (ignored, ignored_names) on profile.import to svc_importer;
-- Messages about health: which ones were written, and the stages of sleep that wait for others (health_messages.sql).
grant select, insert on health.message, health.sleep_stage to svc_importer;
grant execute on function svc.forget_health_messages, svc.remove_joined_sleeps to svc_importer;
-- Sessions, as the ingester writes them.
grant select (user_id, device_id, name, platform), insert, update (platform)
    on activity.device
    to svc_importer;
grant select (idempotency_key), insert on activity.app_session, activity.coding_session to svc_importer;
-- A session that a file brought may be longer in a newer file.
grant select (user_id, ended_at, import_id), update (ended_at)
    on activity.app_session, activity.coding_session
    to svc_importer;
grant select (lines_added, lines_removed), update (lines_added, lines_removed)
    on activity.coding_session
    to svc_importer;
grant select (user_id, date, marked_at), insert, update (marked_at)
    on activity.summary_due
    to svc_importer;
grant select (user_id, date), insert, update (marked_at, is_left_raw)
    on activity.rollup_due
    to svc_importer;
-- Beats of editors, and the sessions that are derived from them (beats.sql).
grant execute
    on function svc.keep_beats,
                svc.kept_beats,
                svc.derived_sessions,
                svc.replace_derived_sessions
    to svc_importer;
-- Only a tracker is noted as having sent something.
revoke insert, update (source, last_sync_at) on activity.device_stream from svc_importer;
grant select,
      insert (user_id, device_id, stream, first_event_at, last_event_at, event_count),
      update (first_event_at, last_event_at, event_count)
    on activity.device_stream
    to svc_importer;
grant select (user_id, date, marked_at), insert, update (marked_at)
    on location.derivation_due
    to svc_importer;

-- Jobs; and the uses of tokens that the resource server records, which cannot read tokens.
grant usage on schema svc to svc_worker;
grant execute on function svc.check_version, svc.note_uses, svc.job_user_id to svc_worker;
grant execute on procedure svc.open_job to svc_worker;

-- The turns of the worker.
grant execute
    on function svc.add_turns,
                svc.is_work_overdue,
                svc.work_waiting,
                svc.claim_turn,
                svc.renew_turn,
                svc.finish_turn,
                svc.put_off_turn,
                svc.give_back_turn
    to svc_worker;

-- The job that sums days up. Of people it can read the time zone.
grant usage on schema identity, reference, activity to svc_worker;
grant execute
    on function svc.people_with_summaries_due,
                svc.duration_ms,
                svc.day_start,
                svc.days,
                svc.cover,
                svc.owned_segments,
                svc.owned_parts,
                svc.switches,
                svc.focus_streaks,
                svc.matches,
                svc.category_of_site
    to svc_worker;
grant select (user_id, timezone) on identity.user to svc_worker;
grant select on reference.category, reference.category_rule to svc_worker;
grant select
    on activity.device,
       activity.app_session,
       activity.coding_session,
       activity.category_score,
       activity.category_rule
    to svc_worker;
grant select, insert, delete on activity.daily_summary to svc_worker;
-- It locks the marks that it removes, for which Postgres requires the right to update.
grant select, update (marked_at), delete on activity.summary_due to svc_worker;

-- The job that writes rollups.
grant execute on function svc.people_with_rollups_due, svc.mark_all_days, svc.instant to svc_worker;
grant select, insert, delete
    on activity.label,
       activity.app_time,
       activity.coding_time,
       activity.app_timeline,
       activity.attention
    to svc_worker;
grant update (detour_label, detour_count, detour_returned, detour_ms, detour_last, detour_away, away, rules),
      update (streak_started, streak_ended, streak_reason, streak_broken, streak_gap, streak_breaker_app),
      update (streak_breaker_category, streak_productive, streak_top_app, streak_top_category, streak_apps)
    on activity.attention
    to svc_worker;
grant select, insert, update (marked_at), delete on activity.attention_due to svc_worker;
grant select, insert, update (marked_at, is_left_raw), delete on activity.rollup_due to svc_worker;

-- It removes sessions of old years, by the only function that may, and nothing computes their days again.
grant execute on function svc.people_with_old_sessions, svc.remove_old_sessions to svc_worker;
grant select on activity.raw_limit, activity.removed_day to svc_worker;

-- The worker imports uploaded files: it begins and ends imports and reads their receipts, and the importer writes the
-- records. It removes files that are no longer needed.
grant usage on schema profile to svc_worker;
grant execute
    on function svc.expire_uploads,
                svc.unneeded_uploads,
                svc.note_upload_directory
    to svc_worker;
grant select, update (status, import_id, problem, expires_at, ended_at)
    on profile.upload
    to svc_worker;
grant select, insert, update (status, problem, key_hash, finished_at)
    on profile.import
    to svc_worker;
grant select on profile.import_part, profile.import_refusal to svc_worker;

-- The worker pulls connections: it opens their secrets, and notes how far it is.
grant select,
      update (
          state,
          problem,
          failing_since,
          is_refused,
          last_pull_at,
          next_pull_at,
          failures,
          first_record_at,
          last_record_at,
          record_count
      )
    on profile.connection
    to svc_worker;
grant select on profile.connection_secret to svc_worker;

-- Of imports that their person has undone, it removes the records.
grant execute on function svc.remove_undone to svc_worker;

-- The job that derives visits and zones from points.
grant usage on schema location, health to svc_worker;
grant execute on function svc.people_with_derivation_due to svc_worker;
grant select on location.point, location.place, location.event to svc_worker;
grant update (timezone) on location.point to svc_worker;
grant insert, delete on location.place, location.event to svc_worker;
grant update (place_id) on location.event to svc_worker;
grant select (user_id, sleep_id, ended_at, utc_offset, is_offset_derived), update (utc_offset)
    on health.sleep
    to svc_worker;
grant select, update (marked_at), delete on location.derivation_due to svc_worker;
