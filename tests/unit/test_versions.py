"""The version of the release, and that of the interface."""

import json
import subprocess
import sys


def test_a_release_changes_the_release_version_and_not_the_api_version() -> None:
    # In a process of its own, since modules take the version when they are imported.
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            """
import json, shared
shared.VERSION = "9.8.7"
from click.testing import CliRunner
from deploy.cli import svc
from resourceserver.description import capabilities, openapi
from resourceserver.ingest import schema
from resourceserver.mcp import protocol
from shared.settings import Settings
print(json.dumps({
    "openapi": openapi.document(Settings())["info"]["version"],
    "ingest": schema.document().version,
    "capabilities": capabilities.of(Settings()).api_version,
    "mcp": protocol.SERVER["version"],
    "command": CliRunner().invoke(svc, ["--version"], prog_name="svc").output.strip(),
}))
            """,
        ],
        capture_output=True,
        check=True,
        text=True,
    ).stdout

    assert json.loads(said) == {
        "openapi": "1.0.0",
        "ingest": "1.0.0",
        "capabilities": "1.0.0",
        "mcp": "9.8.7",
        "command": "svc, version 9.8.7",
    }
