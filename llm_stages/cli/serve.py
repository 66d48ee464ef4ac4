"""`llm-stages serve`: the rule-based model as a server on this machine.

Any program in the format of OpenAI, Anthropic or Gemini can use it. `/` explains the server in a
browser.
"""

import argparse
import signal

from llm_stages.cli.terminal import Terminal
from stage0_gateway import (
    ConfigurationError,
    offline_server,
)


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Serve until Ctrl-C or SIGTERM; return 0."""
    try:
        server = offline_server(options.host, options.port, faults=options.faults)
    except ConfigurationError as error:
        terminal.error(str(error))
        return 2
    except (OSError, OverflowError) as error:
        address = f"{options.host}:{options.port}"
        problem = str(error).rstrip(".")
        terminal.error(f"Cannot listen on {address}: {problem}. Try another --port, or 0.")
        return 2
    # Shells ignore Ctrl-C for programs in the background; SIGTERM stops the server as well.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with server:
        url = f"http://{options.host}:{server.socket.getsockname()[1]}/v1"
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
