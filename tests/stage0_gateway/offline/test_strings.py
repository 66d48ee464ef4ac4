import pytest

from stage0_gateway.offline.pieces import Sheet
from stage0_gateway.offline.strings import find_expression, find_text
from stage0_gateway.offline.wanted import wanted
from stage0_gateway.offline.words import meanings


def text_for(name: str, text: str, *, form: str = "", required: bool = True, subject: str = "") -> str | None:
    return find_text(wanted(name, "", required), form, Sheet(text), meanings(subject))


@pytest.mark.parametrize(
    ("name", "form", "text", "found"),
    [
        ("sender", "email", "Ada, a@b.org", "a@b.org"),
        ("page", "uri", "Read https://x.org/a at 5pm", "https://x.org/a"),
        ("x", "uri-reference", "Read https://x.org/a", "https://x.org/a"),
        ("birthday", "", "Born on March 3rd, 10:30", "March 3rd"),
        ("start_time", "", "Born on March 3rd, 10:30", "10:30"),
        ("ticket_id", "", "Close AB-12", "AB-12"),
        ("filename", "", "Read notes.txt", "notes.txt"),
        ("email", "", "Write to nobody", None),
    ],
)
def test_a_shape_is_asked_for_by_format_or_name(name: str, form: str, text: str, found: str | None) -> None:
    assert text_for(name, text, form=form) == found


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("color", "The color is red.", "red"),
        ("color", "color=“red”", "red"),
        ("pet_kind", "a pet kind called dog", "dog"),
        ("title", 'The title is "Dune, part two"', "Dune, part two"),
        ("title", "title: New York", "New York"),
        ("title", "The title is the best", None),
        ("c.*", "color: red", None),
    ],
)
def test_what_follows_the_parameters_own_name_is_its_value(name: str, text: str, found: str | None) -> None:
    assert text_for(name, text, required=False) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('Say "hi" and "bye"', "hi"),
        ("Tell her: I am late.", "I am late."),
        ("Write a card saying see you soon", "see you soon"),
        ("Please search for the cats of Rome?", "cats of Rome"),
        ("Search!", None),
    ],
)
def test_a_free_text_is_quoted_or_announced_or_the_question_without_its_start(
    text: str, found: str | None
) -> None:
    assert text_for("message", text, subject="search") == found


def test_an_optional_free_text_must_be_quoted() -> None:
    assert text_for("note", "Tell her: I am late.", required=False) is None
    assert text_for("note", 'Tell her "late"', required=False) == "late"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("What is (1 + 2) * 3?", "(1 + 2) * 3"),
        ("9 - 2 and 10 * 20 + 3", "10 * 20 + 3"),
        ("3 plus 4 divided by 2", "3 + 4 / 2"),
        ("3 multiplied by 4, please", "3 * 4"),
        ("6 ÷ 2 × 5 %", "6 ÷ 2 × 5"),
        ("call 555 1234 now", None),
        ("- and + and (", None),
    ],
)
def test_the_longest_sum_is_the_expression(text: str, found: str | None) -> None:
    assert find_expression(text) == found


def test_a_piece_is_used_up_by_the_text_it_becomes() -> None:
    sheet, want = Sheet('mail a@b.org and c@d.org "hi"'), wanted("email", "", True)
    found = [find_text(want, "", sheet, frozenset()) for _ in range(2)]
    assert (found, sheet.free("email")) == (["a@b.org", "c@d.org"], [])
    assert [piece.text for piece in sheet.free("quoted")] == ["hi"]


@pytest.mark.parametrize("part", ["title: ", "saying ", "1+", "a: ", "(", "? "])
def test_a_long_text_ends(part: str) -> None:
    for name in ("title", "message", "expression", "city"):
        found = text_for(name, part * 20_000)
        assert found is None or len(found) <= len(part) * 20_000
