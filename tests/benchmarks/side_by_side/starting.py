"""Cost of starting: the import, its memory, and the time to the first answer.

Each is measured in a new process of the driver's own Python, and compared with a Python that does
nothing. Compiled files are kept, as in a normal installation.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

from pairs import Driver, cores

_HERE = Path(__file__).parent
_END = "\nimport os, sys; sys.stdout.flush(); os._exit(0)"  # the end of the process is not counted
_RESIDENT = """
import resource, sys
try:
    [kilobytes] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmRSS")]
except OSError:
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(int(kilobytes) * 1024, len(sys.modules))
"""


def starting(driver: Driver, server: str, cache: Path) -> dict[str, float]:
    """Return seconds above bare Python to import, seconds to the first answer, bytes of memory, and
    modules.

    Args:
        driver: The driver to start.
        server: URL of a model server.
        cache: Folder for compiled files.

    Raises:
        RuntimeError: It ended with an error.
    """
    environment, imports = _environment(cache), driver.about["import"]
    nothing = _seconds([driver.python, "-c", _END], environment)
    imported = _seconds([driver.python, "-c", imports + _END], environment)
    answered = _seconds([driver.python, str(_HERE / "first.py"), driver.name, server], environment)
    said = _run([driver.python, "-c", imports + _RESIDENT + _END], environment)
    resident, modules = said.split()[-2:]
    return {
        "import": imported - nothing,
        "first answer": answered,
        "resident": float(resident),
        "modules": float(modules),
    }


def _seconds(command: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    _run(command, environment)
    return time.perf_counter() - started


def _run(command: list[str], environment: dict[str, str]) -> str:
    pin = ["taskset", "-c", cores()[1][0]] if cores()[1] and shutil.which("taskset") else []
    done = subprocess.run(
        [*pin, *command], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-500:])
    return done.stdout


def _environment(cache: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(cache), "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
