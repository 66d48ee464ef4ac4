"""The page of a run file in headless Chromium: no errors, no requests, keyboard, contrast, few elements."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from llm_stages import RunFile, read_run
from llm_stages.runs.fork import Fork, fork_run
from llm_stages.runs.page.html import write_page
from llm_stages.runs.page.server import make_server
from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage3_tools import NativeDialect, ToolRegistry, ask, tool

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="needs Debian's packages chromium and chromium-driver"
    ),
]

SECTIONS = ("request", "difference", "reply", "decision", "calls", "numbers")
HOSTILE = (
    "<script>document.title='broken'</script></script><img src=x onerror=document.title='broken'>"
    "{{data}} \u202eabc\u202c \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \ud83d ]]> &lt; \u2028 <!--"
)


@tool(effect="read")
def get_weather(city: str) -> str:
    """Get the weather."""
    return f"22 degrees in {city}"


@tool(effect="read")
def get_page(url: str) -> str:
    """Get a page."""
    return HOSTILE + "x" * 1_000_000


def calls(*names: str) -> Message:
    arguments = {"get_weather": '{"city": "Rome"}', "get_page": '{"url": "/"}'}
    return Message.assistant(
        "", tool_calls=[ToolCall(f"c{i}", name, arguments[name]) for i, name in enumerate(names)]
    )


async def record(path: Path, replies: list, question: str = "What is the weather in Rome?") -> Path:
    """Write the run file of a run with these replies."""
    is_native = any(isinstance(each, Message) for each in replies)
    model = ScriptedModel(replies)
    async with Gateway("openai:gpt-5-mini", api_key="sk-x", transport=model) as gateway:
        await ask(
            question,
            tools=[get_weather, get_page],
            model=gateway,
            dialect=NativeDialect() if is_native else None,
            max_tool_rounds=None,
            variables_over=None,
            trace=RunFile(path),
        )
    return path


def decision(city: str) -> str:
    return json.dumps({"tool": "get_weather", "arguments": {"city": city}})


KILLED = """
    import asyncio, sys, time
    from stage0_gateway import Gateway, ScriptedModel
    from llm_stages import RunFile
    from stage3_tools import ask, tool

    @tool
    def wait() -> str:
        "Wait."
        print("waiting", flush=True)
        time.sleep(60)
        return ""

    async def main():
        model = ScriptedModel(['{"tool": "wait", "arguments": {}}'])
        async with Gateway("openai:any", api_key="k", transport=model) as gateway:
            await ask("Wait!", tools=[wait], model=gateway, trace=RunFile(sys.argv[1]))

    asyncio.run(main())
"""


async def killed_run(path: Path) -> Path:
    """Write the run file of a run that was killed while a tool ran."""
    return await asyncio.to_thread(kill_run, path)


def kill_run(path: Path) -> Path:
    program = [sys.executable, "-c", textwrap.dedent(KILLED), str(path)]
    with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
    return path


async def five_turns(path: Path) -> Path:
    fenced = 'Sure:\n```json\n{"tool": "get_weather", "arguments": {"city": "Rome",}}\n```'
    texts = [fenced, '{"tool": 3}', decision("Oslo"), decision("Paris")]
    return await record(path, [*texts, '{"tool": null, "reply": "Rome."}'])


async def many_turns(path: Path) -> Path:
    texts = [decision(f"City {number}") for number in range(199)]
    return await record(path, [*texts, '{"tool": null, "reply": "Done."}'])


async def hostile(path: Path) -> Path:
    replies = [calls("get_page", "get_weather"), HOSTILE]
    return await record(path, replies, question=HOSTILE)


RUNS = {
    "five turns": five_turns,
    "two hundred turns": many_turns,
    "hostile content": hostile,
    "a killed run": killed_run,
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "headless",
        "no-sandbox",
        "disable-gpu",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
        "window-size=1280,900",
        f"user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(executable_path=DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser, tmp_path):
    """`await opened(make)` opens the page of a run, and returns its path."""

    async def open_page(make, fragment: str = "") -> Path:
        run_file = await make(tmp_path / "run.jsonl")
        page = tmp_path / "run.html"
        write_page(run_file, page)
        browser.get_log("browser")
        browser.get_log("performance")
        browser.get("about:blank")
        browser.get(page.as_uri() + fragment)
        return page

    return open_page


def problems(browser) -> list[str]:
    """Errors in the console, and requests other than the page itself."""
    found = [each["message"] for each in browser.get_log("browser")]
    for each in browser.get_log("performance"):
        message = json.loads(each["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            if not url.startswith(("file:", "data:", "about:", "chrome")):
                found.append(url)
    return found


def pressed(browser, *keys: str) -> None:
    from selenium.webdriver import ActionChains

    ActionChains(browser).send_keys(*keys).perform()


def text(browser, selector: str) -> str:
    return browser.execute_script(f"return document.querySelector({selector!r}).textContent")


@pytest.mark.parametrize("make", RUNS.values(), ids=RUNS)
async def test_every_view_is_reachable_by_keyboard_without_an_error_or_a_request(
    browser, opened, make
):
    page = await opened(make)
    turns = browser.execute_script("return document.querySelectorAll('#turns a').length")
    for number in range(min(turns, 5)):
        if number:
            pressed(browser, "j")
        for key, section in enumerate(SECTIONS, 1):
            pressed(browser, str(key))
            assert browser.execute_script("return location.hash") == f"#turn-{number + 1}-{section}"
    pressed(browser, "?")
    assert browser.execute_script("return document.getElementById('help').open")
    pressed(browser, "\ue00c")  # Escape
    assert problems(browser) == []
    assert browser.execute_script("return document.title !== 'broken'")
    assert page.stat().st_size < 150_000 + 3 * (page.parent / "run.jsonl").stat().st_size


async def test_a_turn_shows_what_was_added_and_where_the_json_was_repaired(browser, opened):
    await opened(five_turns, "#turn-2")
    assert "2 added, 0 dropped, 0 rendered differently" in text(browser, "#difference h3")
    assert "22 degrees in Rome" in text(browser, "#difference")
    assert "/tool must be" in text(browser, "#decision")
    browser.execute_script("location.hash = '#turn-1'")
    assert text(browser, "mark.repair") == ","
    assert text(browser, "mark.found").startswith('{"tool": "get_weather"')


async def test_a_fork_begins_with_the_calls_of_the_edited_reply(browser, opened):
    from selenium.webdriver.support.ui import WebDriverWait

    async def fork(path: Path) -> Path:
        await five_turns(path)
        source, target = read_run(path), path.with_name("fork.jsonl")
        replies = ScriptedModel(['{"tool": null, "reply": "9 degrees."}'])
        change = Fork(turn=1, reply=decision("Oslo"), tools=ToolRegistry(get_weather))
        async with Gateway("openai:any", transport=replies) as gateway:
            await fork_run(source, gateway, change, path, target)
        return target

    await opened(fork)
    assert text(browser, "#turn h2") == "Calls of an earlier reply"
    assert text(browser, "#turns a").strip().startswith("Turn –get_weather")
    assert browser.execute_script("return document.querySelectorAll('#turns .bad').length") == 0
    assert "22 degrees in Oslo" in text(browser, "#calls")
    browser.execute_script("location.hash = '#turn-2'")
    WebDriverWait(browser, 5).until(lambda _: "End of the run" in text(browser, "#turn"))
    assert "forked fromrun.jsonl, turn 1" in text(browser, "#turn")
    assert problems(browser) == []


async def test_the_page_without_its_data_has_at_most_150_kb(opened):
    page = await opened(five_turns)
    source = page.read_text()
    start = source.index('type="application/json">')
    data = source.index("</script>", start) - start
    assert page.stat().st_size - data < 150_000


async def test_search_counts_the_hits_and_hides_other_turns(browser, opened):
    await opened(five_turns)
    pressed(browser, "/")
    pressed(browser, *"oslo")
    shown = browser.execute_script(
        "return [...document.querySelectorAll('#turns li:not([hidden])')].length"
    )
    assert 0 < shown < 5
    assert browser.execute_script("return document.querySelectorAll('#turn mark').length") > 0


async def test_a_turn_that_is_not_selected_adds_few_elements(browser, opened):
    """So that a run of 200 turns appears as fast as one of five."""
    elements = []
    for run in (five_turns, many_turns):
        await opened(run)
        elements.append(browser.execute_script("return document.querySelectorAll('*').length"))
    assert elements[1] - elements[0] < 20 * 195


CONTRAST = """
const seen = [];
const channel = (value) => { value /= 255; return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
const color = (text) => text.match(/[\\d.]+/g).map(Number);
const back = (element) => {
  for (; element; element = element.parentElement) {
    const found = color(getComputedStyle(element).backgroundColor);
    if (found.length === 3 || found[3] > 0) return found;
  }
  return [255, 255, 255];
};
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  if (!own || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName) || !element.getClientRects().length) continue;
  const [a, b] = [light(color(getComputedStyle(element).color)), light(back(element))].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) seen.push(`${element.tagName}.${element.className}: ${ratio.toFixed(2)}`);
}
return [...new Set(seen)];
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("turn", [1, 2, 5])
async def test_text_has_the_contrast_of_wcag_aa(browser, opened, theme, turn):
    await opened(five_turns, f"#turn-{turn}")
    browser.execute_script(f"document.documentElement.dataset.theme = {theme!r}")
    assert browser.execute_script(CONTRAST) == []


@pytest.mark.parametrize("width", [320, 390, 1280])
async def test_the_page_never_scrolls_sideways(browser, opened, width):
    await opened(hostile)
    browser.set_window_size(max(width, 500), 900)
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    try:
        overflow = browser.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.set_window_size(1280, 900)
    assert overflow <= 0


async def test_screen_readers_find_names_for_all_controls(browser, opened):
    await opened(five_turns)
    nameless = browser.execute_script(
        "return [...document.querySelectorAll('a, button, input, nav, section')].filter((each) => "
        "!(each.textContent.trim() || each.getAttribute('aria-label') || "
        "each.getAttribute('aria-labelledby') || each.labels?.length)).map((each) => each.outerHTML)"
    )
    assert nameless == []
    assert browser.execute_script("return document.documentElement.lang") == "en"


async def test_printing_shows_every_turn(browser, opened):
    await opened(five_turns)
    browser.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.execute_script("return document.querySelectorAll('#turn h2').length") == 5


async def test_a_served_page_follows_a_growing_run(browser, tmp_path):
    from selenium.webdriver.support.ui import WebDriverWait

    path = tmp_path / "run.jsonl"
    await record(path, ['{"tool": null, "reply": "One."}'], question="First?")
    server = make_server(path)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        browser.get(f"http://127.0.0.1:{server.server_address[1]}/")
        assert text(browser, "#question") == "First?"
        await record(path, ['{"tool": null, "reply": "Two."}'], question="Second?")
        WebDriverWait(browser, 10).until(lambda _: text(browser, "#question") == "Second?")
    finally:
        server.shutdown()
        server.server_close()


async def test_a_new_turn_is_announced_and_a_part_has_the_focus(browser, opened):
    await opened(five_turns)
    pressed(browser, "j")
    assert text(browser, "#announcement") == "Turn 2, 2 of 5: invalid reply, feedback"
    pressed(browser, "4")
    assert browser.execute_script("return document.activeElement.id") == "decision"


async def two_runs(path: Path) -> Path:
    await record(path, [decision("Rome"), '{"tool": null, "reply": "Rome."}'])
    return await record(path, ['{"tool": null, "reply": "Bye."}'], question="Who are you?")


async def test_a_run_is_not_compared_with_another_run_of_the_file(browser, opened):
    await opened(two_runs, "#turn-3")
    assert "first request" in text(browser, "#difference h3")
    assert problems(browser) == []


async def test_a_cleared_search_shows_all_turns_again(browser, opened):
    await opened(five_turns)
    pressed(browser, "/")
    pressed(browser, *"no such word")
    assert "No turn contains" in text(browser, "#problems")
    pressed(browser, "\ue00c")
    assert text(browser, "#problems") == ""
    hidden = "return document.querySelectorAll('#turns li[hidden]').length"
    assert browser.execute_script(hidden) == 0
