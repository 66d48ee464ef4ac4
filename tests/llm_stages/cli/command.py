"""Run the command `llm-stages` in the process of the tests, with a file of tools."""

import sys
from pathlib import Path

from llm_stages.cli.main import main

TOOLS = '''
from stage3_tools import tool


@tool(effect="read")
def get_weather(city: str) -> dict[str, object]:
    """Get the weather in a city.

    Args:
        city: The name of the city.
    """
    return {"city": city, "temp": 22}


@tool(effect="write")
def delete_file(path: str) -> str:
    """Delete a file.

    Args:
        path: The path of the file.
    """
    return f"deleted {path}"
'''


def llm_stages(*arguments: object) -> int:
    """Run the command, and return its exit status."""
    texts, path = [str(each) for each in arguments], [*sys.path]
    try:
        return main(texts)
    except SystemExit as stopped:  # raised by the parser
        return stopped.code
    finally:  # no other test imports a file of tools
        sys.path[:] = path
        for each in texts:
            if each.endswith(".py"):
                sys.modules.pop(Path(each).stem, None)


def write_tools(folder: Path, text: str = TOOLS) -> Path:
    """Write a file of tools, and return its path."""
    path = folder / "my_tools.py"
    path.write_text(text, encoding="utf-8")
    return path
