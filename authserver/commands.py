"""The authorization server's commands."""

from typing import Final

import click

COMMANDS: Final[tuple[click.Command, ...]] = ()
