-- What receivers of messages about health remove. May run again at any time.

-- Removes the messages and stages of the open session's person that are older than 30 days.
create or replace function svc.forget_health_messages()
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from health.message
     where user_id = svc.import_user_id()
       and received_at < now() - interval '30 days';
    delete from health.sleep_stage
     where user_id = svc.import_user_id()
       and received_at < now() - interval '30 days';
end
$$;

-- Removes sleeps that the connection of the open session has brought, since their stages belong to other sleeps now.
create or replace function svc.remove_joined_sleeps(p_source text, p_keys text[])
returns void
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    delete from health.sleep
     where user_id = svc.import_user_id()
       and import_id = current_setting('svc.import_id')::uuid
       and source = p_source
       and provider_key = any (p_keys);
end
$$;
