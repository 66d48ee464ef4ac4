import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway.offline.pieces import NOT_NAMES, Piece, Sheet, find_pieces


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        (
            "mail a.b@c.org or https://x.org/a?b=1, ok",
            [("email", "a.b@c.org"), ("url", "https://x.org/a?b=1")],
        ),
        (
            "on 3/4/2024, March 3rd, 3rd of May or next friday",
            [("date", "3/4/2024"), ("date", "March 3rd"), ("date", "3rd of May"), ("date", "next friday")],
        ),
        ("at 9:30 pm or 5pm", [("time", "9:30 pm"), ("time", "5pm")]),
        ("open /etc/hosts and report.pdf", [("path", "/etc/hosts"), ("path", "report.pdf")]),
        ("ticket AB-12 of 7", [("code", "AB-12"), ("number", "7")]),
        (
            "say “hi”, 「你好」 and 'it's late'",
            [("quoted", "hi"), ("quoted", "你好"), ("quoted", "it's late")],
        ),
        ("in Berkeley, CA with Ada's cat", [("name", "Berkeley, CA"), ("name", "Ada")]),
        ("Rome is old. Oslo too", [("weak_name", "Rome"), ("weak_name", "Oslo")]),
        ("Please find Oslo on Monday", [("name", "Oslo"), ("date", "Monday")]),
        ("明天北京的天气", [("date", "明天"), ("name", "北京")]),
    ],
)
def test_a_text_is_taken_apart_in_its_order(text: str, pieces: list[tuple[str, str]]) -> None:
    assert [(piece.kind, piece.text) for piece in find_pieces(text)] == pieces


def test_a_piece_knows_its_place_with_the_quotes_and_its_text_without() -> None:
    assert find_pieces('say " 5 Days in Oslo "') == (Piece("quoted", "5 Days in Oslo", 4, 22),)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,234.50 and -3", [1234.5, -3]),
        ("2 million, 1.5 thousand", [2_000_000, 1500]),
        ("seven or Twelve", [7, 12]),
        ("3-2", [3, 2]),
        ("4.0", [4]),
        ("1234567890123456", []),
    ],
)
def test_a_number_has_its_value_and_is_whole_where_it_can_be(text: str, numbers: list[float]) -> None:
    values = [piece.number for piece in find_pieces(text) if piece.kind == "number"]
    assert [(type(value), value) for value in values] == [(type(number), number) for number in numbers]


def test_a_used_piece_is_not_free_again() -> None:
    sheet = Sheet("3 days in Oslo, 4 in Rome")
    three, oslo, four, rome = sheet.pieces
    assert sheet.use(three) is three
    assert sheet.use(oslo) is oslo
    assert (sheet.free("number"), sheet.free("name", "number"), sheet.free()) == ([four], [four, rome], [])
    assert sheet.pieces == (three, oslo, four, rome)


def test_a_word_that_starts_sentences_is_no_name() -> None:
    said = [word.capitalize() for word in sorted(NOT_NAMES) if word.isascii() and word.isalpha()]
    pieces = [piece for word in said for piece in find_pieces(f"({word})")]
    assert [piece for piece in pieces if piece.kind in ("name", "weak_name")] == []


@given(st.text(alphabet="aA1 .,:;-/@\"'“”_北京\n"))
def test_pieces_come_from_their_place_in_the_text_and_in_its_order(text: str) -> None:
    pieces = find_pieces(text)
    assert [piece.start for piece in pieces] == sorted(piece.start for piece in pieces)
    assert [piece for piece in pieces if piece.text not in text[piece.start : piece.end]] == []


@pytest.mark.parametrize("part", ["a.", "1,", "a@", "'a", "/a", "A-", "“", "A de "])
def test_a_long_text_of_half_pieces_ends(part: str) -> None:
    pieces = find_pieces(part * 30_000)
    assert all(piece.end <= len(part) * 30_000 for piece in pieces)


@pytest.mark.parametrize("text", ["add ſix", "add fıve", "add sİx"])
def test_letters_that_only_look_like_those_of_a_number_word_are_no_number(text: str) -> None:
    assert [piece for piece in find_pieces(text) if piece.kind == "number"] == []
