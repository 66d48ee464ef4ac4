"""`python -m stage0_gateway serve`: the rule-based model as a server on this machine.

This module prints its URL and the environment variable to set, so that any program in the format of
OpenAI, Anthropic or Gemini can use it. `offline/local_server.py` answers the requests.
"""

import argparse
import signal
import sys
from collections.abc import Sequence

from stage0_gateway.errors import ConfigurationError
from stage0_gateway.offline.faults import FAULTS
from stage0_gateway.offline.local_server import make_server


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        server = make_server(options.host, options.port, faults=options.faults)
    except ConfigurationError as error:
        parser.error(str(error))
    except (OSError, OverflowError) as error:
        parser.error(
            f"cannot listen on {options.host}:{options.port}: {error}. Try another --port, or 0."
        )
    # Shells ignore Ctrl-C for programs in the background; SIGTERM stops the server as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with server:
        url = f"http://{options.host}:{server.server_address[1]}/v1"
        try:
            print(
                f"Listening on {url} - answers come from rules, not from a language model. "
                "Ctrl-C stops it."
            )
            print(f"LLM_BASE_URL={url}", flush=True)
            server.serve_forever()
        except KeyboardInterrupt:
            print("Stopped.")
    return 0


def _parser() -> argparse.ArgumentParser:
    faults = (f"  {name:21}  {fault.description}" for name, fault in FAULTS.items())
    parser = argparse.ArgumentParser(
        prog="python -m stage0_gateway",
        description="Serve the rule-based model in the formats of OpenAI, Anthropic and Gemini.",
        epilog="\n".join(["faults:", *faults]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=["serve"], help="the only command")
    parser.add_argument("--host", default="127.0.0.1", help="default: this machine only")
    parser.add_argument("--port", default=8099, type=int, help="default: 8099; 0: a free one")
    parser.add_argument("--faults", default="", help="the faults of the first replies, in order")
    return parser


if __name__ == "__main__":
    sys.exit(main())
