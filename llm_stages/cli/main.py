"""The commands of `llm-stages`, their options, and the exit status.

    0   success
    1   the command failed: no reply, a difference, a problem in a file
    2   wrong usage or configuration

`--json` prints JSON on stdout, for scripts.
"""

import argparse
import importlib.metadata
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llm_stages.cli.terminal import Terminal
from llm_stages.cli.tool_file import ToolFileError
from stage0_gateway import (
    ConfigurationError,
    GatewayError,
    offline_faults,
)
from stage1_context import (
    ContextError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return the exit status."""
    try:
        try:
            return _run(_parser().parse_args(arguments))
        finally:
            sys.stdout.flush()
    except OSError as error:
        # Python flushes stdout again at exit, and would print the same error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # `| head` closes the pipe before the end
            Terminal().error(str(error))
        return 1


def _run(options: argparse.Namespace) -> int:
    terminal = Terminal(as_json=getattr(options, "json", False))
    module, _, function = options.run.partition(":")
    try:
        command = importlib.import_module(f"llm_stages.cli.{module}")
        status: int = getattr(command, function or "run")(options, terminal)
    except (ToolFileError, ConfigurationError) as error:
        terminal.error(str(error))
        return 2
    except BrokenPipeError:
        raise
    except OSError as error:
        terminal.error(f"{error.filename}: {error.strerror}." if error.filename else str(error))
        return 1
    except (GatewayError, ContextError, ValueError) as error:
        terminal.error(str(error))
        return 1
    except KeyboardInterrupt:
        terminal.note("Stopped.")
        return 130
    return status


class _Version(argparse.Action):
    """Prints the versions of the distribution and of Python, which no other command looks up."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(nargs=0, **settings)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        version = importlib.metadata.version("llm-stages")
        print(f"llm-stages {version} (Python {platform.python_version()})")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="llm-stages",
        description="Questions, conversations, tools and run files in a terminal. Without a key, "
        "the embedded model answers; it consists of rules and is not a language model.",
    )
    parser.add_argument("--version", action=_Version, help="print the versions and exit")
    commands = parser.add_subparsers(required=True, metavar="command")
    _add_ask(commands)
    _add_chat(commands)
    _add_tools(commands)
    _add_run_files(commands)
    _add_others(commands)
    return parser


def _add_command(commands: Any, name: str, run: str, text: str) -> argparse.ArgumentParser:
    """Add a command; `run` is its module, with ":function" if that is not `run`."""
    parser: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(run=run)
    return parser


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="provider:name; default: LLM_MODEL, or offline:teacher")
    parser.add_argument("--tools", type=Path, metavar="FILE", help="a Python file with tools")
    parser.add_argument("--native", action="store_true", help="use the server's own tool calls")
    parser.add_argument(
        "--approve",
        action="store_true",
        help="ask before each call except reads, not only before writes",
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="write a run file; see `inspect`"
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for scripts")


def _add_ask(commands: Any) -> None:
    parser = _add_command(commands, "ask", "ask", "Answer one question.")
    parser.add_argument("question", help="the question; - reads it from stdin")
    _add_model_options(parser)
    _add_json(parser)


def _add_chat(commands: Any) -> None:
    parser = _add_command(commands, "chat", "chat", "Talk with a model; SQLite keeps the session.")
    parser.add_argument(
        "-c",
        "--continue",
        dest="continue_last",
        action="store_true",
        help="continue the last session",
    )
    _add_model_options(parser)


def _add_tools(commands: Any) -> None:
    for name, function, text in (
        ("tools", "list_tools", "Print what the model sees of the tools in a file."),
        (
            "check",
            "check",
            "Report missing descriptions and effects, ambiguous names, rejected schemas.",
        ),
    ):
        parser = _add_command(commands, name, f"tools:{function}", text)
        parser.add_argument("file", type=Path, help="a Python file with tools")
        _add_json(parser)


def _add_run_files(commands: Any) -> None:
    parser = _add_command(commands, "inspect", "inspect", "Show a run file as an HTML page.")
    parser.add_argument("file", type=Path, help="a run file")
    parser.add_argument(
        "-o", "--output", type=Path, help="default: the name of the file with .html"
    )
    parser.add_argument("--serve", action="store_true", help="follow a growing file in a browser")
    parser.add_argument("--port", type=int, default=0, help="the port of --serve; default: any")
    _add_json(parser)
    parser = _add_command(
        commands,
        "replay",
        "replay",
        "Repeat a run with the recorded replies and results, and report differences; or continue "
        "it from a turn.",
    )
    parser.add_argument("file", type=Path, help="a run file")
    parser.add_argument("--from", dest="from_turn", type=int, help="continue from this turn")
    parser.add_argument("--edit", type=Path, metavar="FILE", help="another reply of this turn")
    parser.add_argument("--message", help="another question")
    parser.add_argument("--tools", type=Path, metavar="FILE", help="run the tools of this file")
    parser.add_argument("--model", help="another model; default: the recorded one")
    parser.add_argument("-o", "--output", type=Path, help="the new run file")
    _add_json(parser)
    parser = _add_command(commands, "diff", "replay:diff", "Compare two runs.")
    parser.add_argument("first", type=Path, help="a run file")
    parser.add_argument("second", type=Path, help="another one")
    parser.add_argument("-o", "--output", type=Path, help="an HTML page, side by side")
    _add_json(parser)
    parser = _add_command(commands, "export", "export", "Convert a run for another program.")
    parser.add_argument("file", type=Path, help="a run file")
    parser.add_argument("--to", choices=("atif", "otel"), required=True, help="the format")
    parser.add_argument(
        "--run", dest="run_id", help="the id of a run; default: the newest outer run"
    )
    parser.add_argument("-o", "--output", type=Path, help="default: stdout")


def _add_others(commands: Any) -> None:
    parser = _add_command(commands, "sessions", "sessions", "List the conversations of `chat`.")
    parser.add_argument("session", nargs="?", help="print this session")
    _add_json(parser)
    parser = _add_command(commands, "doctor", "doctor", "Check the configuration and the model.")
    parser.add_argument("--model", help="provider:name; default: LLM_MODEL, or offline:teacher")
    _add_json(parser)
    parser = _add_command(commands, "serve", "serve", "Serve the rule-based model over HTTP.")
    faults = (f"  {name:21}  {text}" for name, text in offline_faults().items())
    parser.epilog = "\n".join(["faults:", *faults])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--host", default="127.0.0.1", help="default: this machine only")
    parser.add_argument("--port", default=8099, type=int, help="default: 8099; 0: a free one")
    parser.add_argument("--faults", default="", help="the faults of the first replies, in order")


if __name__ == "__main__":
    sys.exit(main())
