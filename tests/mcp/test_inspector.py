"""The command line of the protocol's own inspector against the running server; `make proof` installs it.

It speaks both eras, and in a third way chooses one itself. It validates each answer against the listed
schema of the tool. A run takes half a second, so with few examples each request is sent in one of these ways.
"""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from resourceserver.mcp.apps import APPS
from resourceserver.mcp.prompts import PROMPTS
from resourceserver.mcp.tools import TOOLS
from tests.conftest import Person
from tests.mcp.test_conformance import HERE, node
from tests.processes import Service

PROGRAM: Final = (
    HERE / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
)
ERAS: Final = ("legacy", "auto", "modern")
ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "correlate": {"with": "productive_ms"},
    "search": {"query": "report"},
}
"""The arguments of tools that need some."""
REFUSED: Final = {"fetch": {"id": "unknown"}}
"""Arguments that a tool refuses, because only a search gives it valid ones."""

pytestmark = [
    pytest.mark.foreign,
    pytest.mark.skipif(not PROGRAM.exists(), reason="the inspector is not here: make proof"),
]


@dataclass
class Inspector:
    """The inspector with a token of alice's."""

    url: str
    token: str
    home: Path

    def run(self, era: str, method: str, *words: str, status: int = 0) -> list[dict[str, Any]]:
        """Run a method, expect an exit status, and return the lines of JSON that it prints."""
        finished = subprocess.run(
            [
                *(str(node()), str(PROGRAM), "--cli", self.url, "--transport", "http"),
                *("--header", f"Authorization: Bearer {self.token}", "--stored-auth-only"),
                *("--protocol-era", era, "--format", "json", "--method", method, *words),
            ],
            env=os.environ | {"HOME": str(self.home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert finished.returncode == status, (words, finished.stdout, finished.stderr)
        return [json.loads(line) for line in finished.stdout.splitlines()]


@pytest.fixture
def inspector(service: Service, alice: Person, tmp_path: Path) -> Inspector:
    """An inspector that may read everything of alice's."""
    return Inspector(f"{service.base_url}/mcp", alice.token(), tmp_path)


@pytest.fixture
def is_bounded(request: pytest.FixtureRequest) -> bool:
    """Whether there are few examples."""
    return bool(request.config.getoption("--hypothesis-profile") == "bounded")


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_every_tool(inspector: Inspector, era: str) -> None:
    (tools,) = inspector.run(era, "tools/list", "--strict")

    assert [each["name"] for each in tools["result"]["tools"]] == [tool.name for tool in TOOLS]


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_reads_templates_and_prompts(
    inspector: Inspector, era: str, *, is_bounded: bool
) -> None:
    if is_bounded and era != "auto":
        pytest.skip("few examples: one way is enough")
    probed = inspector.run(era, "tools/list", "--app-info")
    (prompts,) = inspector.run(era, "prompts/list")
    (prompt,) = inspector.run(
        era, "prompts/get", "--prompt-name", "plan_week", "--prompt-args", "priorities=rest"
    )
    (resources,) = inspector.run(era, "resources/list")

    assert {each["toolName"]: each["resourceUri"] for each in probed if each["hasApp"]} == {
        tool.name: tool.app for tool in TOOLS if tool.app is not None
    }
    assert [each["name"] for each in prompts["result"]["prompts"]] == [
        each.name for each in PROMPTS
    ]
    assert "rest" in prompt["result"]["messages"][0]["content"]["text"]
    assert [each["uri"] for each in resources["result"]["resources"]] == [app.uri for app in APPS]


@pytest.mark.parametrize("turn", range(len(ERAS)), ids=ERAS)
def test_the_inspector_calls_every_tool(
    inspector: Inspector, turn: int, *, is_bounded: bool
) -> None:
    called = TOOLS[turn :: len(ERAS)] if is_bounded else TOOLS

    for tool in called:
        is_refused = tool.name in REFUSED
        given = json.dumps(REFUSED.get(tool.name, ARGUMENTS.get(tool.name, {})))
        (answer,) = inspector.run(
            ERAS[turn],
            "tools/call",
            *("--tool-name", tool.name, "--tool-args-json", given),
            status=5 if is_refused else 0,
        )
        assert answer["result"]["isError"] is is_refused


def test_the_inspector_reports_arguments_that_a_tool_refuses(inspector: Inspector) -> None:
    words = ("--tool-name", "get_patterns", "--tool-args-json", '{"weeks": 99}')
    (answer,) = inspector.run("modern", "tools/call", *words, status=5)

    assert answer["result"]["isError"] is True
