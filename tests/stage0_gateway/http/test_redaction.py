import html
import json
import re
from traceback import format_exception
from urllib.parse import quote, quote_plus

import httpx
from hypothesis import example, given
from hypothesis import strategies as st

from stage0_gateway import (
    AuthenticationFailed,
    ChatResponse,
    ConnectionFailed,
    Message,
    StreamInterrupted,
)
from stage0_gateway.http.redaction import (
    Secret,
    redact,
    redact_chunks,
    redact_error,
    redact_response,
)
from tests.tables import for_each

KEYS = ("sk-secret",)
ESCAPED = 'sk-/"\\ü😀 +&<'  # all characters that some encoder escapes
SECRETS = st.text(
    st.characters(exclude_characters="[hiden]", exclude_categories=["Cs"]), min_size=4
)


def test_every_occurrence_of_every_secret_is_hidden():
    assert (
        redact("a KEY-1 b KEY-1 c KEY-2", ["KEY-1", "KEY-2"]) == "a [hidden] b [hidden] c [hidden]"
    )


def in_json(text):
    return json.dumps(text)[1:-1]


def in_json_utf8(text):
    return json.dumps(text, ensure_ascii=False)[1:-1]


SPELLINGS = {
    "as it is": str,
    "JSON": in_json,
    "JSON in UTF-8": in_json_utf8,
    "JSON within JSON": lambda text: in_json(in_json(text)),
    "JSON within JSON within JSON": lambda text: in_json(in_json(in_json(text))),
    "JSON with escaped slashes": lambda text: in_json(text).replace("/", r"\/"),
    "JSON with capital digits": lambda text: in_json(text).replace(r"\u00fc", r"\u00FC"),
    "JSON safe in HTML": lambda text: in_json(text).replace("&", r"\u0026").replace("<", r"\u003C"),
    "URL": lambda text: quote(text, safe=""),
    "path of a URL": quote,
    "form": quote_plus,
    "URL in small letters": lambda text: quote_plus(text).lower(),
    "URL within a URL": lambda text: quote(quote(text, safe=""), safe=""),
    "HTML": html.escape,
    "HTML within HTML": lambda text: html.escape(html.escape(text)),
    "HTML in numbers": lambda text: "".join(f"&#{ord(each)};" for each in text),
    "HTML in hexadecimal numbers": lambda text: "".join(f"&#x{ord(each):04X};" for each in text),
    "Python's repr": lambda text: repr(text)[1:-1],
    "ASCII": lambda text: ascii(text)[1:-1],
    "string literal": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
    "Markdown": lambda text: re.sub(r"([^\w\\]|\\+)", r"\\\1", text),
}


@for_each("spell", SPELLINGS.values())
def test_a_secret_is_hidden_in_every_spelling(spell):
    assert redact(f"before {spell(ESCAPED)} after", [ESCAPED]) == "before [hidden] after"


@given(SECRETS, st.sampled_from([*SPELLINGS.values()]))
@example("\\" * 5, in_json)
@example("a\\\\/\\b", SPELLINGS["JSON within JSON within JSON"])
@example("\x00\x08\x0c\r\n\t", in_json)
def test_any_secret_is_hidden_completely(secret, spell):
    if spell is SPELLINGS["URL in small letters"] and secret != secret.lower():
        secret = secret.lower() * 4
    assert redact(f"«{spell(secret)}»", [secret]).strip("«»") in (
        "[hidden]",
        spell(secret) * (len(secret) < 4),
    )


@given(st.lists(st.sampled_from(["sk-1234", "sk-", "1234", "data: ", "ü", "\n"])), st.data())
def test_split_secrets_are_hidden_and_the_number_of_chunks_stays(parts, data):
    whole = "".join(parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    hidden = redact_chunks(chunks, ["sk-1234"])
    assert len(hidden) == len(chunks)
    assert b"".join(hidden) == whole.replace(b"sk-1234", b"*******")


def test_a_split_secret_is_hidden_in_each_chunk():
    chunks = [b"a sk", b"-12", b"", b"34 b", b"c"]
    assert redact_chunks(chunks, ["sk-1234"]) == [b"a **", b"***", b"", b"** b", b"c"]


def test_the_beginning_of_a_long_secret_is_hidden_in_a_body():
    chunks = [b"a sk-12", b"34567 b"]
    assert redact_chunks(chunks, ["sk-1234567890abcdef"]) == [b"a *****", b"***** b"]


def test_overlapping_secrets_are_hidden_completely():
    assert (
        redact("key-abcd-key abcdef", ["key-abcd", "abcd-key", "abcd", "abcdef"])
        == "[hidden] [hidden]"
    )


def test_empty_and_very_short_secrets_are_not_replaced():
    assert redact("a b sk-", ["", "b", "sk-"]) == "a b sk-"


def test_half_a_surrogate_pair_is_accepted():
    assert redact("\ud83d key-1", ["key-1", "\ud83d???"]) == "\ud83d [hidden]"
    assert redact_chunks([b"a"], ["\ud83d???"]) == [b"a"]


def test_long_runs_of_backslashes_are_processed_in_time():
    text = "\\" * 10_000
    assert redact(text, ["a\\b\\\\c", "\\" * 12 + "x"]) == text


KEY = "sk-secret+xyz/1234567890"


@for_each("spell", SPELLINGS.values())
@for_each("end", ["", "… (cut)", "****"])
@for_each("length", [8, 20])
def test_a_truncated_or_masked_secret_is_hidden(spell, end, length):
    assert redact(f"bad key {spell(KEY[:length])}{end}", [KEY]).startswith("bad key [hidden]")


def test_the_first_few_characters_of_a_secret_are_shown():
    assert redact("Keys start with sk-. Yours is sk-se***90.", [KEY]) == (
        "Keys start with sk-. Yours is sk-se***90."
    )


@given(
    st.text(st.characters(codec="ascii", exclude_categories=["Cc", "Zs"]), min_size=20), st.text()
)
def test_words_that_begin_like_a_secret_are_hidden(secret, rest):
    assert secret[:8] not in redact(f"bad {secret[:-4]} {rest}", [secret]).replace(rest, "")


def test_a_long_text_is_redacted_in_time():
    text = "The key is not valid. " * 50_000
    assert redact(text, [KEY, "hunter2/\\ß"]) == text


def test_a_secret_is_hidden_in_every_repr():
    secret = Secret("sk-1234")
    assert (secret, f"Bearer {secret}", {secret: 1}["sk-1234"]) == ("sk-1234", "Bearer sk-1234", 1)
    assert "sk-1234" not in repr([secret, {"key": secret}])


@for_each(
    "written",
    [
        "my+long+pass+phrase",
        r"my\u0020long\u0020pass\u0020phrase",
        "my&#32;long&#32;pass&#32;phrase",
    ],
)
def test_a_secret_is_hidden_if_only_its_spaces_are_escaped(written):
    assert redact(f"key: {written} end", ["my long pass phrase"]) == "key: [hidden] end"


# ---- errors and replies


def failed(because):
    """Return an error as the connection raises it, with the library's exception as its cause."""
    try:
        try:
            raise because
        except Exception as error:
            raise ConnectionFailed(f"It broke ({error}).") from error
    except ConnectionFailed as error:
        return error


def test_a_secret_is_removed_from_an_error():
    error = AuthenticationFailed("sk-secret is wrong: sk-secret")
    redact_error(error, KEYS)
    assert str(error) == "[hidden] is wrong: [hidden]"


def test_a_cause_without_a_secret_is_kept():
    error = failed(httpx.ReadError("reset"))
    redact_error(error, KEYS)
    assert isinstance(error.__cause__, httpx.ReadError)


def test_a_cause_with_a_secret_is_removed():
    error = failed(httpx.RemoteProtocolError("illegal header: sk-secret"))
    redact_error(error, KEYS)
    assert (error.__cause__, error.__context__) == (None, None)
    assert "sk-secret" not in "".join(format_exception(error))


def test_a_gateway_error_as_cause_is_kept_without_the_secret():
    first = failed(httpx.RemoteProtocolError("illegal header: sk-secret"))
    error = StreamInterrupted("It broke.")
    error.__cause__ = first
    redact_error(error, KEYS)
    assert error.__cause__ is first
    assert str(first) == "It broke (illegal header: [hidden])."
    assert "sk-secret" not in "".join(format_exception(error))


def test_the_context_of_a_cause_is_searched_too():
    inner = httpx.ReadError("fine")
    inner.__context__ = ValueError("sk-secret")
    error = failed(inner)
    redact_error(error, KEYS)
    assert "sk-secret" not in "".join(format_exception(error))
    assert error.__cause__ is inner


def test_secrets_are_hidden_in_names_of_a_reply_but_not_in_its_text():
    message = Message.assistant("sk-secret")
    reply = ChatResponse(message, model="m sk-secret", request_id="sk-secret")
    assert redact_response(reply, KEYS) == ChatResponse(
        message, model="m [hidden]", request_id="[hidden]"
    )
    plain = ChatResponse(message, model="m")
    assert redact_response(plain, KEYS) is plain
