-- name: today
-- What day it is where the caller lives.
--include answer
select timezone as tz,
       (now() at time zone timezone)::date as today
  from identity.user
 where user_id = %(user_id)s
--include end_of_answer
