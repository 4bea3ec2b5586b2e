"""The operator's terminal of these tests."""

import re
import shlex
from dataclasses import dataclass

from click.testing import CliRunner, Result

from authserver.cli import people
from shared.settings import Settings


@dataclass(frozen=True)
class Terminal:
    """Runs commands as the console script does."""

    settings: Settings

    def run(self, line: str, typed: str | bytes | None = None) -> Result:
        """Run a command line with the given standard input."""
        words = shlex.split(line)
        found = {command.name: command for command in people.COMMANDS}
        return CliRunner().invoke(found[words[0]], words[1:], input=typed, obj=self.settings)

    def table(self, words: str) -> list[list[str]]:
        """Return the cells of the table that a command prints, line by line and without its header."""
        result = self.run(words)
        assert result.exit_code == 0, result.output
        return [re.split(" {2,}", line) for line in result.stdout.splitlines()[1:]]
