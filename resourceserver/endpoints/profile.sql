-- name: me
-- The caller's profile.
select row_to_json(profile) as data
  from (
           select user_id as id,
                  email,
                  display_name,
                  timezone,
                  is_admin,
                  week_starts_on,
                  svc.instant(created_at) as created_at
             from identity.user
            where user_id = %(user_id)s
       ) as profile
