"""`llm-stages export`: a run file in the format of another program."""

import argparse
import json

from llm_stages.cli.terminal import Terminal
from llm_stages.runs.export.atif import to_atif
from llm_stages.runs.export.otel import to_otel
from llm_stages.runs.reader import read_run
from stage0_gateway import (
    write_private,
)

FORMATS = {"atif": to_atif, "otel": to_otel}


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Write a run in another format; return 0."""
    value = FORMATS[options.to](read_run(options.file, options.run_id))
    if options.output is None:
        terminal.json(value)
    else:
        write_private(options.output, json.dumps(value, indent=2))
        terminal.note(f"Wrote {options.output}.")
    return 0
