import json
import math
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import ConfigurationError, Usage
from stage0_gateway.accounting.prices import (
    MAX_TOKENS,
    BilledTokens,
    GenaiPrices,
    Price,
    PriceTable,
    billed_tokens,
)
from stage0_gateway.http.endpoint import PROVIDERS
from tests.tables import for_each

MINI = Price(0.25, 2.0, cached_input=0.025)
HAIKU = Price(1.0, 5.0, cached_input=0.1, cache_write=1.25)
THOUSAND = Usage(1000, 1000)
NOT_INSTALLED = "genai-prices is not installed: pip install 'llm-stages[prices]'"


@pytest.fixture
def library():
    pytest.importorskip("genai_prices", reason=NOT_INSTALLED)
    return GenaiPrices()


# ---- which tokens are billed


def usage(read=None, wrote=None, cached=None, thought=None, cache_write=None):
    return Usage(read, wrote, cached, thought, cache_write)


@for_each(
    "wire, reported, billed",
    [
        ("openai", usage(1000, 50), BilledTokens(1000, 0, 0, 50)),
        ("openai", usage(1000, 50, cached=900, thought=40), BilledTokens(100, 900, 0, 50)),
        ("openai", usage(1000, 50, cached=200, cache_write=700), BilledTokens(100, 200, 700, 50)),
        ("anthropic", usage(100, 50), BilledTokens(100, 0, 0, 50)),
        ("anthropic", usage(3, 50, cached=900, cache_write=200), BilledTokens(3, 900, 200, 50)),
        ("anthropic", usage(100, 50, thought=40), BilledTokens(100, 0, 0, 50)),
        ("gemini", usage(1000, 50), BilledTokens(1000, 0, 0, 50)),
        ("gemini", usage(1000, 50, cached=900, thought=400), BilledTokens(100, 900, 0, 450)),
        ("gemini", usage(34, thought=68), BilledTokens(34, 0, 0, 68)),  # cut while thinking
        ("openai", usage(0, 0), BilledTokens(0, 0, 0, 0)),
        (
            "openai-responses",
            usage(1000, 50, cached=200, thought=40, cache_write=700),
            BilledTokens(100, 200, 700, 50),
        ),
    ],
)
def test_every_token_is_billed_once_in_the_counting_of_each_format(wire, reported, billed):
    assert billed_tokens(wire, reported) == billed


@for_each("wire", ["openai", "anthropic", "gemini", "openai-responses"])
@for_each("reported", [None, usage(), usage(10), usage(wrote=10), usage(wrote=10, cached=5)])
def test_incomplete_usage_has_no_billed_tokens(wire, reported):
    assert billed_tokens(wire, reported) is None


@for_each("wire", ["openai", "anthropic"])
def test_thinking_tokens_without_output_tokens_are_incomplete_if_the_output_includes_them(wire):
    assert billed_tokens(wire, usage(34, thought=68)) is None


@for_each(
    "wire, reported",
    [
        ("openai", usage(31, 9, cached=161)),  # xAI's Grok behind Azure reports this
        ("openai", usage(100, 9, cached=60, cache_write=60)),
        ("openai", usage(43, 10, thought=11)),
        ("openai-responses", usage(43, 10, thought=11)),
        ("anthropic", usage(43, 10, thought=11)),
        ("gemini", usage(31, 9, cached=161)),
        ("gemini", usage(31, 9, thought=-4)),
        ("anthropic", usage(-1, 9)),
        ("anthropic", usage(10, 9, cached=-5)),
        ("anthropic", usage(10, 9, cache_write=-5)),
        ("openai", usage(10, -9)),
        ("openai", usage(MAX_TOKENS + 1, 9)),
        ("a format of next year", usage(10, 9)),
    ],
)
def test_implausible_usage_has_no_cost(wire, reported):
    assert billed_tokens(wire, reported) is None
    assert PriceTable({"m": HAIKU}).cost("openai", "m", wire, reported) is None


def test_equal_work_costs_the_same_in_every_wire_format():
    table = PriceTable({"m": HAIKU})
    reports = {
        "openai": usage(1000, 90, cached=600, thought=40, cache_write=300),
        "anthropic": usage(100, 90, cached=600, thought=40, cache_write=300),
        "gemini": usage(1000, 50, cached=600, thought=40, cache_write=300),
        "openai-responses": usage(1000, 90, cached=600, thought=40, cache_write=300),
    }
    costs = {wire: table.cost("openai", "m", wire, report) for wire, report in reports.items()}
    assert costs == dict.fromkeys(
        reports, pytest.approx((100 * 1 + 600 * 0.1 + 300 * 1.25 + 90 * 5) / 1e6)
    )


counts = st.none() | st.integers(-5, 1000) | st.sampled_from([MAX_TOKENS, 10**400, -(10**400)])


@given(
    st.sampled_from(["openai", "anthropic", "gemini", "openai-responses"]),
    st.builds(Usage, *[counts] * 5),
)
def test_no_usage_gives_a_negative_or_infinite_cost(wire, reported):
    cost = PriceTable({"m": HAIKU}).cost("openai", "m", wire, reported)
    assert cost is None or (math.isfinite(cost) and cost >= 0)


# ---- price tables


def test_prices_are_dollars_per_million_tokens():
    assert (
        PriceTable({"m": Price(3, 15)}).cost("openai", "m", "openai", Usage(1_000_000, 1_000_000))
        == 18.0
    )


def test_a_model_that_is_not_in_the_table_has_an_unknown_cost():
    assert PriceTable({}).cost("openai", "gpt-5-mini", "openai", THOUSAND) is None


def test_a_free_model_costs_zero():
    assert (
        PriceTable({"ollama:llama3.2": Price(0, 0)}).cost("ollama", "llama3.2", "openai", THOUSAND)
        == 0.0
    )


def price(names, model, provider="openai"):
    """Return the name whose price was used: each costs its index in dollars per thousand tokens."""
    table = PriceTable({name: Price(1000 * place, 0) for place, name in enumerate(names)})
    cost = table.cost(provider, model, "openai", Usage(1000, 0))
    return None if cost is None else names[round(cost)]


def test_a_name_with_the_provider_has_priority():
    names = ["gpt-5-mini", "openai:gpt-5-mini"]
    assert price(names, "gpt-5-mini") == "openai:gpt-5-mini"
    assert price(names, "gpt-5-mini", "openrouter") == "gpt-5-mini"


@for_each("model", ["gpt-5", "GPT-5-MINI", "x-gpt-5-mini", "gpt-5-mini-fast", ""])
def test_other_names_are_not_guessed(model):
    assert price(["gpt-5-mini", "openai:gpt-5-mini"], model) is None


def test_cached_tokens_without_their_own_price_are_billed_as_input():
    table = PriceTable({"m": Price(1, 0)})
    assert table.cost("openai", "m", "openai", usage(1000, 0, cached=900)) == 0.001


def test_cache_writes_without_a_price_make_the_cost_unknown():
    table = PriceTable({"m": Price(1, 0)})
    assert table.cost("anthropic", "m", "anthropic", usage(1000, 0, cache_write=1)) is None
    assert table.cost("anthropic", "m", "anthropic", usage(1000, 0, cache_write=0)) == 0.001


def test_a_cache_price_of_zero_is_used():
    table = PriceTable({"m": Price(1, 1, cached_input=0, cache_write=0)})
    assert (
        table.cost("anthropic", "m", "anthropic", usage(0, 0, cached=1000, cache_write=1000)) == 0.0
    )


def test_a_table_is_not_affected_by_later_changes_to_its_source():
    prices = {"m": MINI}
    table = PriceTable(prices)
    prices.clear()
    assert table.cost("openai", "m", "openai", THOUSAND) == pytest.approx(0.00225)


@for_each("wrong", [(-1, 2), (1, -2), (1, 2, -3), (1, 2, 3, -4), (math.nan, 2), (1, math.inf)])
def test_an_invalid_price_is_rejected(wrong):
    with pytest.raises(ConfigurationError, match="US dollars per million tokens"):
        Price(*wrong)


# ---- charges that servers report

CHARGED = {  # prices at the time of the recording
    "anthropic/claude-4.5-haiku": HAIKU,
    "anthropic/claude-4.5-sonnet": Price(3, 15),
    "anthropic/claude-4.6-sonnet": Price(3, 15, cache_write=3.75),
    "anthropic/claude-sonnet-4.5": Price(3, 15),
    "google/gemini-2.5-flash": Price(0.3, 2.5, cached_input=0.03),
    "openai/gpt-5-mini": MINI,
    "x-ai/grok-4": Price(3, 15, cached_input=0.75),
}


def charged(body):
    """Return (model, raw numbers) of the last usage with a charge in a body."""
    lines = [
        line.removeprefix("data:").strip()
        for line in body.splitlines()
        if line.startswith("data: {")
    ]
    reports = [json.loads(line) for line in lines or [body]]
    return [
        (each["model"], each["usage"]) for each in reports if (each.get("usage") or {}).get("cost")
    ][-1:]


def test_computed_costs_equal_the_charges_of_openrouter(recorded, capsys):
    rows = [
        row["response"] for row in recorded("wire.jsonl")[0] if row["vendor"] == "openrouter.ai"
    ]
    checked = skipped = 0
    for model, charge in (
        each for row in rows if row["status"] == 200 for each in charged(row["body"])
    ):
        read, wrote = charge["prompt_tokens_details"], charge["completion_tokens_details"]
        parts = read["cached_tokens"], wrote["reasoning_tokens"], read.get("cache_write_tokens")
        raw = Usage(charge["prompt_tokens"], charge["completion_tokens"], *parts)
        cost = PriceTable(CHARGED).cost("openrouter", model, "openai", raw)
        assert cost in (None, pytest.approx(charge["cost"])), (model, charge)
        checked, skipped = checked + (cost is not None), skipped + (cost is None)
    with capsys.disabled():
        sys.stdout.write(
            f"\nwire.jsonl: {checked} charges checked, {skipped} of other models skipped\n"
        )
    assert checked


# ---- the prices of the library


def test_a_missing_library_raises_an_error_with_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'llm-stages\[prices\]'"):
        GenaiPrices()


def test_a_price_table_does_not_import_the_library():
    code = (
        "import sys; from stage0_gateway.accounting.prices import PriceTable; PriceTable({}); "
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "stage0_gateway.accounting.prices" in loaded.split()
    assert "genai_prices" not in loaded.split()


# Retired models, whose prices do not change any more.
@for_each(
    "provider, model, wire, listed",
    [
        ("openai", "gpt-4o-mini-2024-07-18", "openai", Price(0.15, 0.6, 0.075, 0.15)),
        (
            "openai-responses",
            "gpt-4o-mini-2024-07-18",
            "openai-responses",
            Price(0.15, 0.6, 0.075, 0.15),
        ),
        ("anthropic", "claude-3-5-haiku-20241022", "anthropic", Price(0.8, 4, 0.08, 1.0)),
        ("gemini", "gemini-2.0-flash", "gemini", Price(0.1, 0.4, 0.025, 0.1)),
    ],
)
@for_each("reported", [THOUSAND, usage(1000, 500, cached=600, thought=200, cache_write=300)])
def test_the_library_and_a_table_with_equal_prices_agree(
    library, provider, model, wire, listed, reported
):
    expected = PriceTable({model: listed}).cost(provider, model, wire, reported)
    assert library.cost(provider, model, wire, reported) == pytest.approx(expected)


def test_a_price_tier_by_prompt_length_counts_cached_tokens(library):
    short, long = (usage(1000, 0, cached=cached) for cached in (198_000, 200_000))
    costs = [
        library.cost("anthropic", "claude-sonnet-4-5", "anthropic", each) for each in (short, long)
    ]
    assert costs == [pytest.approx(0.003 + 0.0594), pytest.approx(0.006 + 0.12)]


@for_each("provider", PROVIDERS)
def test_the_library_has_prices_for_every_provider_with_a_key_and_for_no_local_provider(
    library, provider
):
    about = PROVIDERS[provider]
    cost = library.cost(provider, about.example_model, about.wire.NAME, THOUSAND)
    assert (cost is not None and cost > 0) == (about.key_variable is not None)


@for_each(
    "provider, model",
    [
        ("openai", "gpt-of-next-year"),
        ("openai", ""),
        ("a-provider-of-next-year", "gpt-4o-mini"),
        ("ollama", "gpt-4o-mini"),
        ("openai", "whisper-1"),  # billed by the minute
        ("openai", "text-embedding-3-small"),  # no output price
        (
            "openrouter",
            "deepseek/deepseek-r1:free",
        ),  # the library lists no price and would return zero
    ],
)
def test_a_model_without_a_price_in_the_library_has_no_cost(library, provider, model):
    assert library.cost(provider, model, "openai", THOUSAND) is None


@given(
    st.sampled_from(["openai", "anthropic", "gemini", "openai-responses"]),
    st.builds(Usage, *[counts] * 5),
)
def test_implausible_usage_is_not_passed_to_the_library(wire, reported):
    pytest.importorskip("genai_prices", reason=NOT_INSTALLED)
    cost = GenaiPrices().cost("anthropic", "claude-3-5-haiku-20241022", wire, reported)
    assert (cost is None) == (billed_tokens(wire, reported) is None)
    assert cost is None or (math.isfinite(cost) and cost >= 0)


def test_the_library_starts_no_background_thread(library):
    before = {*threading.enumerate()}  # some of them may end meanwhile: other tests started them
    library.cost("openai", "gpt-4o-mini", "openai", THOUSAND)  # a connection would fail every test
    GenaiPrices().cost("openai", "gpt-of-next-year", "openai", THOUSAND)
    assert {*threading.enumerate()} <= before
