"""Tests of the promises that a store, a wire format or a dialect makes.

Each class contains tests for pytest. A subclass names the object under test with a fixture, and
pytest runs the tests of the class with it::

    class TestRedisStore(StoreContract):
        @pytest.fixture
        def open_store(self, redis_url):
            return lambda: RedisStore(redis_url)

The tests compare types and attributes, never the texts of errors. They need pytest, pytest-asyncio
and Hypothesis: the extra `[testing]`.

Modules:
    stores        `StoreContract`: create, append, read and list, also by several writers at once
    wire_formats  `WireFormatContract`: requests and replies, sent through both directions
    dialects      `DialectContract`: describe tools, render requests, read replies, whole runs
"""

try:
    import pytest

    for _module in ("dialects", "stores", "wire_formats"):
        pytest.register_assert_rewrite(f"{__name__}.{_module}")

    from llm_stages.testing.dialects import DialectContract
    from llm_stages.testing.stores import StoreContract
    from llm_stages.testing.wire_formats import WireFormatContract
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"llm_stages.testing needs {error.name}, which is not installed: "
        "pip install 'llm-stages[testing]'",
        name=error.name,
    ) from error

__all__ = ["DialectContract", "StoreContract", "WireFormatContract"]
