-- Writing what happened in repositories.

-- name: put_code_events
-- Writes events. The newer wins: counts of lines come later than the event itself. What the newer does not
-- know stays: a commit of a clone has lines, and the same commit of its code host whether it is private.
with written as (
    insert into code.event (
        user_id,
        event_id,
        provider,
        provider_key,
        import_id,
        type,
        action,
        occurred_at,
        repository,
        is_private,
        title,
        url,
        ref,
        sha,
        number,
        state,
        additions,
        deletions,
        changed_files
    )
    select %(user_id)s,
           sent.id::uuid,
           %(source)s,
           sent.key,
           %(import_id)s,
           sent.type,
           sent.action,
           timestamptz 'epoch' + sent.occurred_at::bigint * interval '1 millisecond',
           sent.repository,
           sent.is_private::boolean,
           sent.title,
           sent.url,
           sent.ref,
           sent.sha,
           sent.number::integer,
           sent.state,
           sent.additions::integer,
           sent.deletions::integer,
           sent.changed_files::integer
      from rows from (
               json_array_elements_text(%(key)s::json),
               json_array_elements_text(%(id)s::json),
               json_array_elements_text(%(type)s::json),
               json_array_elements_text(%(action)s::json),
               json_array_elements_text(%(occurred_at)s::json),
               json_array_elements_text(%(repository)s::json),
               json_array_elements_text(%(is_private)s::json),
               json_array_elements_text(%(title)s::json),
               json_array_elements_text(%(url)s::json),
               json_array_elements_text(%(ref)s::json),
               json_array_elements_text(%(sha)s::json),
               json_array_elements_text(%(number)s::json),
               json_array_elements_text(%(state)s::json),
               json_array_elements_text(%(additions)s::json),
               json_array_elements_text(%(deletions)s::json),
               json_array_elements_text(%(changed_files)s::json)
           ) as sent (
               key,
               id,
               type,
               action,
               occurred_at,
               repository,
               is_private,
               title,
               url,
               ref,
               sha,
               number,
               state,
               additions,
               deletions,
               changed_files
           )
     order by sent.key collate "C"
        on conflict (user_id, provider, provider_key) do update
       set type = excluded.type,
           action = excluded.action,
           occurred_at = excluded.occurred_at,
           repository = excluded.repository,
           is_private = coalesce(excluded.is_private, event.is_private),
           title = coalesce(excluded.title, event.title),
           url = coalesce(excluded.url, event.url),
           ref = coalesce(excluded.ref, event.ref),
           sha = coalesce(excluded.sha, event.sha),
           number = coalesce(excluded.number, event.number),
           state = coalesce(excluded.state, event.state),
           additions = coalesce(excluded.additions, event.additions),
           deletions = coalesce(excluded.deletions, event.deletions),
           changed_files = coalesce(excluded.changed_files, event.changed_files)
     where (
               event.type,
               event.action,
               event.occurred_at,
               event.repository,
               event.is_private,
               event.title,
               event.url,
               event.ref,
               event.sha,
               event.number,
               event.state,
               event.additions,
               event.deletions,
               event.changed_files
           ) is distinct from (
               excluded.type,
               excluded.action,
               excluded.occurred_at,
               excluded.repository,
               coalesce(excluded.is_private, event.is_private),
               coalesce(excluded.title, event.title),
               coalesce(excluded.url, event.url),
               coalesce(excluded.ref, event.ref),
               coalesce(excluded.sha, event.sha),
               coalesce(excluded.number, event.number),
               coalesce(excluded.state, event.state),
               coalesce(excluded.additions, event.additions),
               coalesce(excluded.deletions, event.deletions),
               coalesce(excluded.changed_files, event.changed_files)
           )
    returning provider_key,
              xmax = 0 as is_new
)
select provider_key,
       is_new
  from written
