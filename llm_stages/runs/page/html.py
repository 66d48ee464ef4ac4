"""The page of a run file: its data, style sheet and script in one HTML text.

The data is JSON inside of a script element. Every `<` is escaped there, so no text of a model or a
tool can end the element. A content security policy forbids every request; a served page may fetch
from its own server.
"""

import json
from pathlib import Path
from typing import Any

from llm_stages.runs.page.view import page_data
from llm_stages.runs.reader import read_runs
from llm_stages.runs.values import newest
from stage0_gateway import write_private

NO_RUN = "The file contains no run yet."


def write_page(run_file: Path, page: Path) -> None:
    """Write the page of a run file.

    Raises:
        OSError: A file cannot be read or written.
        ValueError: The run file is damaged; the text names the line.
    """
    write_private(page, render_page(file_data(run_file)))


def file_data(run_file: Path) -> dict[str, Any]:
    """Return the data of a run file, and what is missing in it."""
    runs, problems = read_runs(run_file), []
    if not runs:
        problems = [NO_RUN]
    elif runs[newest(runs)].end is None:
        problems = ["The run has not ended, or it was killed."]
    return page_data(runs, run_file.name, problems)


def render_page(data: dict[str, Any], *, is_served: bool = False) -> str:
    """Return the page as HTML.

    Args:
        data: The result of `page_data`.
        is_served: Whether the page asks its server for changes.
    """
    if is_served:
        data = {**data, "follow": True}
    replaced = {
        "{{connect}}": "'self'" if is_served else "'none'",
        "{{style}}": page_file("page.css"),
        "{{script}}": page_file("page.js"),
        "{{data}}": as_script(data),
    }
    html = page_file("page.html")
    for name, text in replaced.items():  # the data comes last: it may contain such words
        html = html.replace(name, text, 1)
    return html


def as_script(value: Any) -> str:
    """Return a value as ASCII JSON that cannot end the element that contains it."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def page_file(name: str) -> str:
    """Return the text of a file in this folder."""
    from importlib.resources import files  # slow to import

    return (files("llm_stages.runs.page") / name).read_text(encoding="utf-8")
