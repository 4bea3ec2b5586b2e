"""A person's commands, beside real servers."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from deploy import cli
from shared.settings import Settings


@dataclass(frozen=True)
class Terminal:
    """A terminal of a person's, with a configuration directory of its own."""

    settings: Settings

    def run(self, *words: str) -> Result:
        """Run a command of ``svc``, as far as it needs no settings from the environment."""
        command = cli.svc.get_command(_CONTEXT, words[0])
        assert command is not None
        return CliRunner().invoke(command, words[1:], obj=self.settings)

    @property
    def file(self) -> Path:
        """The file of the login."""
        return self.settings.config_dir / "login.json"

    def stored(self) -> dict[str, Any]:
        """Return the content of the file of the login."""
        content: dict[str, Any] = json.loads(self.file.read_text())
        return content

    def store(self, content: dict[str, Any]) -> None:
        """Write the file of the login."""
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.file.touch(mode=0o600)
        self.file.write_text(json.dumps(content))

    def expire(self) -> None:
        """Let the command believe that its access token has expired."""
        stored = self.stored()
        stored["tokens"]["expires_at"] = 0
        self.store(stored)


_CONTEXT = cli.svc.make_context("svc", ["today"])

MakeTerminal = Callable[[str], Terminal]


@pytest.fixture
def make_terminal(tmp_path: Path) -> MakeTerminal:
    """Gives a person a terminal for the resource server at an address."""

    def make(address: str) -> Terminal:
        return Terminal(replace(Settings(), base_url=address, config_dir=tmp_path / "svc"))

    return make
