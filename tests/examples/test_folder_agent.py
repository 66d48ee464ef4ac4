"""The tools of the folder agent cannot read or write outside their folder."""

import os
import runpy
from pathlib import Path

import pytest

from stage0_gateway import ToolCall
from stage3_tools import ExecutionSettings, ToolError, execute_tool_call
from tests.tables import for_each

EXAMPLE = Path(__file__).parents[2] / "examples" / "folder_agent.py"
SECRET = "the password is swordfish"


@pytest.fixture(scope="module")
def example():
    return runpy.run_path(str(EXAMPLE))


@pytest.fixture
def outside(tmp_path):
    """A folder with a secret, another folder with the same prefix, and the agent's folder, which
    contains links to the outside."""
    root = tmp_path / "folder"
    (root / "deep" / "deeper").mkdir(parents=True)
    (root / "list.txt").write_text("Buy milk.\n")
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "folder2").mkdir()
    (tmp_path / "folder2" / "secret.txt").write_text(SECRET)
    (root / "out").symlink_to(tmp_path)
    (root / "file").symlink_to(tmp_path / "secret.txt")
    (root / "deep" / "relative").symlink_to("../../folder2")
    (root / "chain").symlink_to("deep/relative")
    (root / "dangling").symlink_to(tmp_path / "new.txt")
    (root / "circle").symlink_to("circle")
    (root / "here").symlink_to("list.txt")
    os.link(root / "list.txt", root / "deep" / "same.txt")
    return tmp_path


@pytest.fixture
def tools(example, outside):
    return example["Folder"](outside / "folder").tools()


def content_of(folder):
    """Return the paths below a folder and the bytes of the files; links are not followed."""
    return {
        str(each.relative_to(folder)): each.read_bytes()
        if each.is_file() and not each.is_symlink()
        else None
        for each in folder.rglob("*")
    }


PATHS_TO_THE_OUTSIDE = [
    "..",
    "../secret.txt",
    "./deep/../../secret.txt",
    "deep/deeper/../../../secret.txt",
    "../folder2/secret.txt",
    "no/such/../../../secret.txt",
    "list.txt/../../secret.txt",
    "/",
    "//etc/passwd",
    "/etc/passwd",
    "/proc/self/environ",
    "out",
    "out/secret.txt",
    "out/folder2/secret.txt",
    "out/new.txt",
    "file",
    "chain/secret.txt",
    "deep/relative/secret.txt",
    "deep/relative/../secret.txt",
    "dangling",
    "circle/../../secret.txt",
    "list.txt\0",
    "\0",
    "../secret.txt\0.md",
    "\ud800",
]


@for_each("path", PATHS_TO_THE_OUTSIDE)
@for_each("name", ["list_files", "read_file", "write_file"])
async def test_a_path_outside_the_folder_is_refused_and_nothing_changes(tools, outside, name, path):
    before = content_of(outside)
    given = {"path": path, "text": "x"} if name == "write_file" else {"path": path}
    with pytest.raises(ToolError) as caught:
        await tools.execute(name, given)
    assert caught.value.kind == "permission"
    assert caught.value.hint == "Try list_files."
    assert SECRET not in caught.value.for_model
    assert content_of(outside) == before


async def test_an_absolute_path_must_be_inside_the_folder(tools, outside):
    with pytest.raises(ToolError) as caught:
        await tools.execute("read_file", {"path": str(outside / "secret.txt")})
    assert caught.value.kind == "permission"
    assert (
        await tools.execute("read_file", {"path": str(outside / "folder" / "list.txt")})
        == "Buy milk.\n"
    )


@for_each("path", ["list.txt", "./list.txt", "deep/../list.txt", "here", "out/folder/list.txt"])
async def test_a_path_that_resolves_into_the_folder_is_accepted(tools, path):
    assert await tools.execute("read_file", {"path": path}) == "Buy milk.\n"


async def test_a_folder_may_be_a_link(example, outside):
    (outside / "link").symlink_to("folder")
    tools = example["Folder"](outside / "link").tools()
    assert await tools.execute("read_file", {"path": "list.txt"}) == "Buy milk.\n"
    with pytest.raises(ToolError, match="not in the folder"):
        await tools.execute("read_file", {"path": "../secret.txt"})


async def test_search_does_not_follow_links_to_the_outside(tools):
    assert await tools.execute("search", {"word": "password"}) == []
    assert await tools.execute("search", {"word": "milk"}) == [
        "deep/same.txt: Buy milk.",
        "here: Buy milk.",
        "list.txt: Buy milk.",
    ]


@pytest.fixture
def pipe(outside):
    """A pipe in the folder. Opening it would block."""
    os.mkfifo(outside / "folder" / "pipe")


@pytest.mark.usefixtures("pipe")
@for_each("path", ["deep", ".", "", "none.txt", "deep/none/none.txt", "~", "$HOME", "pipe"])
async def test_folders_pipes_and_missing_files_are_not_read(tools, path):
    with pytest.raises(ToolError) as caught:
        await tools.execute("read_file", {"path": path})
    assert (caught.value.kind, caught.value.message) == ("not_found", f"{path!r} is no file.")


@pytest.mark.usefixtures("pipe")
@for_each("path", ["deep", ".", "pipe"])
async def test_folders_and_pipes_are_not_written(tools, path):
    with pytest.raises(ToolError) as caught:
        await tools.execute("write_file", {"path": path, "text": "x"})
    assert (caught.value.kind, caught.value.message) == (
        "validation",
        f"{path!r} is there, and is no file.",
    )


@for_each("path", ["list.txt/below.txt", "circle", "x" * 300, "/".join("x" * 5000)])
@for_each("name", ["list_files", "read_file", "write_file"])
async def test_an_impossible_path_is_a_tool_error_and_nothing_changes(tools, outside, name, path):
    before = content_of(outside)
    given = {"path": path, "text": "x"} if name == "write_file" else {"path": path}
    with pytest.raises(ToolError):
        await tools.execute(name, given)
    assert content_of(outside) == before


async def test_only_the_beginning_of_a_huge_file_is_read(tools, outside):
    with (outside / "folder" / "huge.txt").open("wb") as file:
        file.write("ä".encode() * 20_001)
        file.truncate(10**11)  # a sparse file, which needs no disk space
    assert await tools.execute("read_file", {"path": "huge.txt"}) == "ä" * 20_000
    assert await tools.execute("search", {"word": "milk"}) != []


async def test_a_binary_file_is_a_tool_error_and_search_skips_it(tools, outside):
    (outside / "folder" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n milk")
    with pytest.raises(ToolError) as caught:
        await tools.execute("read_file", {"path": "a.png"})
    assert (caught.value.kind, caught.value.message) == ("execution", "'a.png' is no text.")
    assert len(await tools.execute("search", {"word": "milk"})) == 3


async def test_text_that_cannot_be_encoded_does_not_change_the_file(tools, outside):
    with pytest.raises(ToolError):
        await tools.execute("write_file", {"path": "list.txt", "text": "\ud800"})
    assert (outside / "folder" / "list.txt").read_text() == "Buy milk.\n"


async def test_a_file_in_a_new_folder_is_written_exactly(tools, outside):
    output = await tools.execute(
        "write_file", {"path": "new/er/tea.txt", "text": "Tee für Ada\r\n"}
    )
    assert output == "13 characters written."
    assert (
        outside / "folder" / "new" / "er" / "tea.txt"
    ).read_bytes() == "Tee für Ada\r\n".encode()


@for_each("approve", [None, lambda request: False])
async def test_nothing_is_written_without_approval(tools, outside, approve):
    call = ToolCall("1", "write_file", '{"path": "list.txt", "text": "x"}')
    result = await execute_tool_call(tools, call, ExecutionSettings(approve=approve))
    assert (result.status, result.attempts) == ("rejected", 0)
    assert (outside / "folder" / "list.txt").read_text() == "Buy milk.\n"


async def test_the_example_requests_approval_for_writes_only(example, tools, capsys):
    execution = ExecutionSettings(approve=example["ask"])
    read = ToolCall("1", "read_file", '{"path": "list.txt"}')
    wrong = ToolCall("2", "write_file", '{"path": "list.txt", "text": "Tea"}')
    assert (await execute_tool_call(tools, read, execution)).output == "Buy milk.\n"
    assert capsys.readouterr().out == ""
    assert (await execute_tool_call(tools, wrong, execution)).status == "rejected"
    assert "may write_file run?" in capsys.readouterr().out
