"""Changes of accounts and grants: statements that record their own security events.

Such a statement ends with the fragments of ``events.sql``, so that the change and its events are one
transaction. The log lines of the events are written after the commit.
"""

from authserver import events, rows
from authserver.events import Event, RequestOrigin
from authserver.rows import Database, Parameters
from shared.pipeline import Statement


async def run(
    database: Database,
    statement: Statement,
    parameters: Parameters,
    origin: RequestOrigin,
    *,
    preceded_by: Statement | None = None,
) -> list[Event]:
    """Run a change and return its events. No event means that nothing has changed. Raises psycopg.Error.

    ``preceded_by`` runs first, in the same transaction and with the same parameters.
    """
    given = {**parameters, **origin.parameters}
    recorded = await rows.every(database, Event, statement, given, preceded_by=preceded_by)
    events.write_log(recorded, origin)
    return recorded
