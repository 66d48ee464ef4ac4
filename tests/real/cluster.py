"""A separate PostgreSQL server in its own folder, for the duration of a test.

It listens only on a socket in that folder and requires a password. It is stopped and removed at the
end, even if the tests are killed.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

USER, PASSWORD = "stages", "s3cret-word"
INSTALLED = sorted(
    Path("/usr/lib/postgresql").glob("*/bin"), key=lambda each: float(each.parent.name)
)
OUTER = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), *map(str, reversed(INSTALLED))])


class Cluster:
    """A server with its databases, which can be stopped and started again."""

    def __init__(self, folder: Path, owner: str | None) -> None:
        self.folder = folder
        self._owner = owner
        self._data = ("-D", folder / "data")

    def initialize(self, password: Path) -> None:
        """Create the files of the server, without waiting for the disk."""
        signing_in = ("-U", USER, "-A", "scram-sha-256", "--pwfile", password)
        self.run("initdb", *self._data, *signing_in, "-E", "UTF8", "-N")

    def dsn(self, database: str = "postgres", *, user: str = USER, password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{quote(password, safe='')}@/{quote(database)}?host={self.folder}&port=5432"

    def start(self) -> None:
        settings = f"-k {self.folder} -p 5432 -c listen_addresses= -c max_connections=200 -c log_min_messages=fatal"
        self.run("pg_ctl", *self._data, "start", "-w", "-l", self.folder / "log", "-o", settings)

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; "immediate" simulates a crash."""
        self.run("pg_ctl", *self._data, "stop", "-w", "-m", mode)

    def run(self, name: str, *arguments: object) -> None:
        """Run one of PostgreSQL's programs as an ordinary user, out of reach of Ctrl-C."""
        done = subprocess.run(
            [program(name), *map(str, arguments)],
            user=self._owner,
            cwd=self.folder,
            env={**OUTER, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            start_new_session=True,
        )
        assert done.returncode == 0, f"{name}: {done.stderr}"


def missing() -> str | None:
    """Return the reason why no server can be started here, or None."""
    if program("initdb") is None or program("pg_ctl") is None:
        return "PostgreSQL is not installed: neither initdb in PATH nor /usr/lib/postgresql"
    return None


def program(name: str) -> str | None:
    return shutil.which(name, path=SEARCH_PATH)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Yield a running server that is removed afterwards."""
    owner = _ordinary_user()
    folder = Path(tempfile.mkdtemp(prefix="stages-"))
    if owner:
        shutil.chown(folder, owner)
    with _removed_afterwards(folder, owner):
        password = folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)  # in a private folder
        server = Cluster(folder, owner)
        server.initialize(password)
        server.start()
        yield server


def _removed_afterwards(folder: Path, owner: str | None) -> subprocess.Popen:
    """Start a process that removes the server as soon as this process exits or closes the pipe."""
    script = 'read -r _; "$0" stop -s -m immediate -D "$1/data"; rm -rf "$1"'
    return subprocess.Popen(
        ["sh", "-c", script, program("pg_ctl"), folder],
        user=owner,
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _ordinary_user() -> str | None:
    """Return the user that runs the server: PostgreSQL rejects the superuser."""
    if os.geteuid() != 0:
        return None
    import pwd

    names = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
