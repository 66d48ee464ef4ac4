"""The Python of each driver: a virtual environment for each peer, created once with plain pip.

    python tests/benchmarks/side_by_side/venvs.py [DRIVER …]     creates them, all by default

The environments are kept in `.bench/` in the project's root; delete that folder to get newer
versions. Drivers that need only the project and its extras run in the Python that runs the
benchmark. This file needs only Python.
"""

import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / ".bench"

HERE = ("bare_httpx", "bare_aiohttp", "ours", "ours_fast", "ours_ask")
"""Drivers that run in the Python that runs the benchmark."""

REQUIREMENTS: dict[str, tuple[str, ...]] = {
    "openai_sdk": ("openai>=3.54",),
    "anthropic_runner": ("anthropic>=2.12",),
    "openai_agents": ("openai-agents>=0.24",),
    "pydantic_ai_agent": ("pydantic-ai-slim[openai]>=2.68",),
    "langchain_agent": ("langchain>=1.4", "langchain-openai>=1.7"),
    "litellm_sdk": ("litellm[mcp]>=1.106",),  # tools need this extra
    "smolagents_agent": ("smolagents[openai]>=1.26",),
}
"""Requirements of each other driver. They are not pinned: a report lists the measured versions."""


class Skipped(Exception):
    """An environment could not be created; the message has the reason."""


def python_of(driver: str) -> Path:
    """Return the Python of a driver; creates its environment if it is missing.

    Args:
        driver: Name of a file in `drivers/`.

    Returns:
        The path of an executable.

    Raises:
        Skipped: The environment cannot be created.
    """
    if driver in HERE:
        return Path(sys.executable)
    home = FOLDER / driver
    python = home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    # Written last, so an incomplete environment is not mistaken for a complete one.
    mark, wanted = home / "installed.txt", "\n".join(REQUIREMENTS[driver])
    if not (mark.exists() and mark.read_text() == wanted):
        _make(home, python, REQUIREMENTS[driver])
        mark.write_text(wanted)
    return python


def _make(home: Path, python: Path, requirements: tuple[str, ...]) -> None:
    print(f"{home.name}: installs {', '.join(requirements)} in {home} …", flush=True)
    shutil.rmtree(home, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(home)])
    _run(
        [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *requirements,
        ]
    )


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        lines = [
            line.strip() for line in (error.stdout + error.stderr).splitlines() if line.strip()
        ]
        # The first lines of pip have the reason, the last ones a reference.
        reasons = [line for line in lines if line.startswith("ERROR")] or lines[-1:]
        raise Skipped(f"{' '.join(command[1:4])} failed: {' '.join(reasons[:1])}") from None
    except OSError as error:
        raise Skipped(f"{type(error).__name__}: {error}") from None


def main(names: list[str]) -> None:
    """Create the named environments, or all."""
    for name in names or REQUIREMENTS:
        try:
            print(f"{name}: {python_of(name)}")
        except Skipped as error:
            print(f"{name}: skipped, {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
