"""The path of one question: the files and functions that run until its answer.

    .venv/bin/python tests/benchmarks/path.py [DRIVER] [--dialect calls] [--files]

A scripted model server on this machine answers a question with one tool call, and then with text.
`DRIVER` is a file of `side_by_side/drivers`: `ours` (`run_tool_loop`, the default), `ours_fast`,
`ours_ask`, or a peer such as `openai_agents`, which gets an environment of its own below `.bench/`.
`--files` also lists each file and its functions: what a reader opens to follow the question.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "side_by_side"))

import venvs
from pairs import Driver, model_server
from tasks import DIALECTS


def main() -> int:
    """Trace the question and print its path; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("driver", nargs="?", default="ours")
    parser.add_argument(
        "--dialect", choices=DIALECTS, help="the first one of the driver by default"
    )
    parser.add_argument("--files", action="store_true", help="list the files and their functions")
    options = parser.parse_args()
    known = [*venvs.HERE, *venvs.REQUIREMENTS]
    if options.driver not in known:
        parser.error(f"Unknown driver {options.driver!r}. The drivers are {', '.join(known)}.")
    driver = Driver(options.driver, str(venvs.python_of(options.driver)))
    able = [each for each in DIALECTS if each in driver.can and "path" in driver.can]
    dialect = options.dialect or (able[0] if able else None)
    if dialect not in able:
        parser.error(f"{options.driver} is traced in {', '.join(able) or 'no dialect'}.")
    with model_server() as server:
        path = driver.do("path", server=server, dialect=dialect)
    driver.close()
    for file, functions in sorted(path["listed"].items()) if options.files else ():
        print(f"{file}: {', '.join(name.rpartition('.')[2] for name in functions)}")
    print(
        f"{driver.about['title']}, {DIALECTS[dialect]}: "
        f"{path['files']} files of {path['lines']:,} lines; "
        f"{path['functions']} functions of {path['lines of functions']:,} lines run"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
