"""``python -m tests.bench.faults``: load on both servers and a worker, with faults, and what became of it.

It starts a database of its own, two processes of each server and a worker, and lets clients go on for some
minutes. Meanwhile, twice each: the database is restarted; a process of each server and the worker are killed;
nothing passes between the servers and the database for ten seconds. Each line of the table is a rule and what
was measured; the exit status is 1 if one does not hold. The machine should have nothing else to do.
"""

import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import click

from tests.bench.faults.run import carry_out, lines


@click.command()
@click.option("--clients", "count", default=200, show_default=True)
@click.option("--seconds", default=300.0, show_default=True)
@click.option("--loop", "loops", multiple=True, type=click.Choice(("uvloop", "asyncio")))
def main(count: int, seconds: float, loops: tuple[str, ...]) -> None:
    """Run everything under each event loop, and print a table of each."""
    holds = True
    for loop in loops or ("uvloop", "asyncio"):
        directory = Path(tempfile.mkdtemp(prefix="svc-faults-"))
        directory.chmod(0o755)
        click.echo(f"{count} clients for {seconds:.0f} s under {loop}", err=True)
        try:
            run = carry_out(loop, count, seconds, directory)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        click.echo(
            f"\n{count} clients, {seconds:.0f} s, {loop}\n\n| rule | measured | |\n|---|---|---|"
        )
        for line in lines(run):
            click.echo(f"| {line.rule} | {line.measured} | {'holds' if line.holds else '**no**'} |")
            holds = holds and line.holds
        examples = Counter(
            f"{each.kind} {each.status} {each.error[:120]}"
            for each in run.record.answers
            if each.status == 0 or each.status >= 400
        )
        for what, often in examples.most_common(12):
            click.echo(f"  {often} times: {what}", err=True)
        for each in sorted(run.record.answers, key=lambda each: -each.took_s)[:8]:
            at = each.begun - run.began
            click.echo(
                f"  {each.took_s:.1f} s from {at:.1f} s on: {each.kind} {each.status}", err=True
            )
        for loss in Counter(run.record.losses).most_common(5):
            click.echo(f"  {loss}", err=True)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
