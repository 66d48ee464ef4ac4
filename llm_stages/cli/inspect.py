"""`llm-stages inspect`: a run file as one HTML page."""

import argparse
from pathlib import Path

from llm_stages.cli.terminal import Terminal
from llm_stages.runs.page.html import write_page
from llm_stages.runs.page.server import make_server


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Write the page, or serve it until Ctrl-C; return 0."""
    if options.serve:
        return _serve(options, terminal)
    page: Path = options.output or options.file.with_suffix(".html")
    if page.resolve() == options.file.resolve():
        terminal.error(f"The page would replace {options.file}. Select another file with -o.")
        return 2
    write_page(options.file, page)
    if terminal.as_json:
        terminal.json({"page": str(page)})
    else:
        terminal.text(f"Wrote {page}. Open it in a browser.")
    return 0


def _serve(options: argparse.Namespace, terminal: Terminal) -> int:
    try:
        server = make_server(options.file, options.port)
    except (OSError, OverflowError) as error:
        problem = str(error).rstrip(".")
        terminal.error(
            f"Cannot listen on port {options.port}: {problem}. Try another --port, or 0."
        )
        return 2
    with server:
        print(f"The run is at http://127.0.0.1:{server.server_address[1]}/. Ctrl-C stops.")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("Stopped.")
    return 0
