"""Run an example that starts itself again: `python tests/examples/forked.py examples/name.py`.

Its processes are copies of this one, which has imported the packages.
"""

import os
import runpy
import subprocess
import sys
import traceback


def run(command: list[str]) -> None:
    """Run a Python program in a copy of this process, and wait for its end."""
    _, program, *arguments = command
    if pid := os.fork():
        os.waitpid(pid, 0)
        return
    sys.argv = [program, *arguments]
    try:
        runpy.run_path(program, run_name="__main__")
    except Exception:
        traceback.print_exc()
    os._exit(0)


subprocess.run = run
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
