"""`python -m stage0_gateway serve`: the embedded teaching model as a server on this machine.

The only file of the stage that prints. It prints where it listens and what to set, so that any program
which speaks OpenAI's, Anthropic's or Gemini's format can be pointed at it; it knows nothing of how a request
is answered.
"""

import argparse
import logging
import sys
from collections.abc import Sequence

from stage0_gateway.errors import ConfigurationError
from stage0_gateway.offline.faults import FAULTS, FaultPlan
from stage0_gateway.serve.tcp import make_server


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    options = _parser().parse_args(arguments)
    if options.verbose:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        server = make_server(options.host, options.port, faults=options.faults)
    except OSError as error:
        where = f"{options.host}:{options.port}"
        print(f"Cannot listen on {where}: {error.strerror}. Try another --port, or 0.", file=sys.stderr)
        return 1
    with server:
        url = f"http://{_reachable(options.host)}:{server.server_address[1]}/v1"
        print(f"Listening on {url} - answers come from rules, not from a language model. Ctrl-C stops it.")
        print(f"LLM_BASE_URL={url}", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("Stopped.")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m stage0_gateway", description="The embedded teaching model."
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    serve = commands.add_parser(
        "serve",
        help="answer over HTTP, in OpenAI's, Anthropic's and Gemini's format",
        epilog="\n".join(["faults:", *(f"  {name:21}  {fault.does}" for name, fault in FAULTS.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: this machine only)"
    )
    serve.add_argument("--port", type=_port, default=8099, help="0 picks a free one (default: 8099)")
    serve.add_argument(
        "--faults", type=_faults, default="", metavar="NAME,…", help="what the n-th request gets"
    )
    serve.add_argument("--verbose", action="store_true", help="log each request")
    return parser


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:9]) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; a port is a number from 0 to 65535")
    return int(text)


def _faults(text: str) -> str:
    try:
        FaultPlan(text)
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _reachable(host: str) -> str:
    """The host as a client on this machine writes it."""
    if host in ("", "0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


if __name__ == "__main__":
    sys.exit(main())
