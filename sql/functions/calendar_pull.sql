-- Removing what a calendar no longer has, at the end of a pull. May run again at any time.

-- Removes the events that the import of the open session has added, that lie at least partly between two instants, and
-- whose keys are not among `p_keys`; returns how many these were. Events of other imports stay, such as those of a file.
-- Raises SV401 if no session of an import is open.
-- The importer may not delete rows otherwise: it parses what strangers write.
create or replace function svc.remove_calendar_events(
    p_starts_at timestamptz,
    p_ends_at   timestamptz,
    p_keys      text[]
)
returns bigint
language plpgsql
volatile
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    importing constant uuid := svc.import_user_id();
    removed   bigint;
begin
    if importing is null then
        raise exception using errcode = 'SV401', message = 'no session of an import is open';
    end if;
    delete from content.calendar_event as event
     where event.user_id = importing
       and event.import_id = current_setting('svc.import_id')::uuid
       and event.starts_at < p_ends_at
       and event.ends_at >= p_starts_at
       and not exists (
               select
                 from unnest(p_keys) as kept (provider_key)
                where kept.provider_key = event.provider_key
           );
    get diagnostics removed = row_count;
    return removed;
end
$$;
