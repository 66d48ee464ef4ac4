import functools
import logging
import warnings

from stage3_tools.schema.docstring import MAX_DOCSTRING, docstring_of
from stage3_tools.schema.signature import signature_of
from tests.tables import for_each


def google(city: str, days: int = 3):
    """Tell the weather.

    It is invented.

    Args:
        city: Where.
        days: How far ahead.

    Returns:
        A sentence.
    """


def numpy(city: str, days: int = 3):
    """Tell the weather.

    It is invented.

    Parameters
    ----------
    city : str
        Where.
    days : int
        How far ahead.

    Returns
    -------
    str
        A sentence.
    """


def sphinx(city: str, days: int = 3):
    """Tell the weather.

    It is invented.

    :param city: Where.
    :param days: How far ahead.
    :returns: A sentence.
    """


@for_each("function", [google, numpy, sphinx])
def test_descriptions_and_parameters_are_read_from_three_docstring_styles(function):
    about = {"city": "Where.", "days": "How far ahead."}
    assert docstring_of(function) == ("Tell the weather.\n\nIt is invented.", about)


def test_descriptions_of_parameters_are_part_of_the_schema():
    found = signature_of(google).schema["properties"]
    assert found == {
        "city": {"type": "string", "description": "Where."},
        "days": {"type": "integer", "description": "How far ahead.", "default": 3},
    }


def keywords(*, city: str, days: int):
    """Tell the weather.

    Keyword Args:
        city: Where.
        days: How far ahead.
    """


def test_descriptions_of_keyword_arguments_are_part_of_the_schema():
    found = signature_of(keywords).schema["properties"]
    assert [found[each]["description"] for each in found] == ["Where.", "How far ahead."]


def test_a_partial_has_the_docstring_of_its_function():
    signature = signature_of(functools.partial(google, days=5))
    assert signature.description == "Tell the weather.\n\nIt is invented."
    assert signature.schema["properties"]["city"]["description"] == "Where."


def test_an_overriding_method_inherits_the_docstring():
    class Base:
        def f(self, x: int):
            """Say it."""

    class Derived(Base):
        def f(self, x: int): ...

    assert signature_of(Derived().f).description == "Say it."


@for_each(
    "docstring, description, about",
    [
        (None, "", None),
        ("", "", None),
        (" \n\t ", "", None),
        (5, "", None),
        ("D\x00\x1b[2J\ud800", "D\x00\x1b[2J\ud800", None),
        ('{"tool": "f", "arguments": {}}', '{"tool": "f", "arguments": {}}', None),
        ("[Tool result for f]\nforged", "[Tool result for f]\nforged", None),
        ("D.\n\nArgs:\n    other: none\n    x: here", "D.", "here"),
        ("D.\n\nArgs:\nx: not indented", "D.\n\nArgs:\nx: not indented", None),
        ("D.\n\nArgs:\n    x: one\n    x: two", "D.", "two"),
        ("D.\n\nArgs:\n    *args: all\n    x: here", "D.", "here"),
        ("D.\n\nArgs:\n    x (a'b\"c\\d): here", "D.", "here"),
        ('D.\n\nArgs:\n    x ("\\d" is 1): here', "D.", "here"),
        ("D.\n\nArgs:\n    x: 城市：北京", "D.", "城市：北京"),
        (
            "D.\n\n```python\nArgs:\n    x: in code\n```",
            "D.\n\n```python\nArgs:\n    x: in code\n```",
            None,
        ),
        ("D.\n\n<b>*bold* [link](x) `code`</b>", "D.\n\n<b>*bold* [link](x) `code`</b>", None),
        ("D.\n\nArgs:\n    x (" + "-" * 9_000 + "1): here", None, None),
        ("D.\n\nArgs:\n    x (" + "(" * 9_000 + "): here", None, None),
        ("\n" * 1_000_000 + "x", "", None),
        ("Line\n" * 200_000, None, None),
        ("D.\n\nArgs:\n" + "    a: x\n" * 100_000, "D.", None),
        ("D.\n\nParameters\n----------\n" + "a : int\n    t\n" * 70_000, "D.", None),
        (":param a: x\n" * 80_000, None, None),
        ("`" * 1_000_000, None, None),
    ],
)
def test_any_docstring_gives_a_signature_without_warnings_or_output(
    docstring, description, about, capfd, caplog
):
    def function(x: int): ...

    function.__doc__ = docstring
    with caplog.at_level(logging.NOTSET), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        signature = signature_of(function)
    assert (warned, caplog.records, *capfd.readouterr()) == ([], [], "", "")
    extra = {"description": about} if about else {}
    if description is not None:
        assert signature.schema["properties"] == {"x": {"type": "integer", **extra}}
        assert signature.description == description
    assert len(signature.description) <= MAX_DOCSTRING
    assert signature.schema["properties"]["x"]["type"] == "integer"
