"""Undoing an import: what it brought first is removed, and the days of its sessions are summed up again.

A record that a later import knew or changed is removed too, since it has one row: bring the later file again
to have it back. The page leaves the removal to the worker (``sql/functions/undo.sql``).
"""

from uuid import UUID

from resourceserver.integrations.imports import receipts
from resourceserver.integrations.imports.receipts import Connection


def undo(owner: Connection, user_id: UUID, import_id: UUID) -> None:
    """Remove what an import brought. Raises AlreadyRunning while it runs."""
    receipts.lock(owner, str(import_id))
    values = {"user_id": user_id, "import_id": import_id}
    with receipts.as_owner(owner):
        # Its session ends first, so that a run on another machine writes nothing more.
        owner.execute(receipts.SQL["note_undone"], values)
        owner.execute(receipts.SQL["remove_import"], values)
