"""Run an example with a run file: `python tests/examples/traced.py run.jsonl examples/name.py`.

The file is the default of the option `trace`, so the example itself does not change.
"""

import runpy
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from llm_stages import RunFile
from stage3_tools import RunnerParams, ToolChainOptions, ToolLoopOptions

path, example, *arguments = sys.argv[1:]
file = RunFile(path)
for options in (ToolLoopOptions, RunnerParams, ToolChainOptions):
    defaults = options.__init__.__kwdefaults__
    assert defaults["trace"] is None
    defaults["trace"] = file
sys.argv = [example, *arguments]
sys.path.insert(0, str(Path(example).parent))
runpy.run_path(example, run_name="__main__")
