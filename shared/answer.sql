-- Fragments that every file of named SQL may include. A statement is written as
--
--     --include answer
--     select ...
--     --include end_of_answer
--
-- so that Postgres writes its one row as a JSON object whose members are the columns.

-- fragment: answer
select row_to_json(body)::text
  from (

-- fragment: end_of_answer
       ) as body
