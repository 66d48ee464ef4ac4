import json
from base64 import b64encode
from urllib.parse import quote, quote_plus

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stage0_gateway.credentials import credentials, hide, hide_in_chunks, names_a_credential

ODD = 'sk-/"\\ü😀 +&<'  # every character that some encoder escapes
SECRETS = st.text(st.characters(exclude_characters="[hiden]", exclude_categories=["Cs"]), min_size=4)


@pytest.mark.parametrize(
    "name",
    [
        *("authorization", "proxy-authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie"),
        *("key", "api_key", "access_token", "accessToken", "APIKey", "sig", "X-Amz-Signature"),
    ],
)
def test_names_of_credentials_are_known(name):
    assert names_a_credential(name)


@pytest.mark.parametrize(
    "name", ["content-type", "x-ratelimit-remaining-tokens", "max_tokens", "keywords", "x-request-id", "alt"]
)
def test_other_names_are_no_credentials(name):
    assert not names_a_credential(name)


@pytest.mark.parametrize(
    ("request_", "secret"),
    [
        (httpx.Request("GET", "http://h", headers={"Authorization": "Bearer sk-1"}), "sk-1"),
        (httpx.Request("GET", "http://h", headers={"x-api-key": "sk-1"}), "sk-1"),
        (httpx.Request("GET", "http://h", headers=[("api-key", "sk-1"), ("api-key", "sk-2")]), "sk-1"),
        (httpx.Request("GET", "http://h", headers={"cookie": "a=1; session=sk-1"}), "sk-1"),
        (httpx.Request("GET", "http://h", headers={"Authorization": "Basic bWU6c2stMQ=="}), "sk-1"),
        (httpx.Request("GET", "http://h", headers={"Authorization": "Basic bWU6c2stMQ=="}), "bWU6c2stMQ=="),
        (httpx.Request("GET", "http://h/?alt=sse&key=sk%2F1"), "sk/1"),
        (httpx.Request("GET", "http://me:sk%2F1@h"), "sk/1"),
        (httpx.Request("GET", "http://me:sk-1@h"), "bWU6c2stMQ=="),
        (httpx.Request("GET", "http://sk-1@h"), "sk-1"),
        (httpx.Request("POST", "http://h", json={"tools": [{"authorization": "sk-12345"}]}), "sk-12345"),
        (httpx.Request("POST", "http://h", json={"h": {"Authorization": "Bearer sk-1"}}), "sk-1"),
        (httpx.Request("POST", "http://h", json={"headers": {"X-Api-Key": "sk-12345"}}), "sk-12345"),
    ],
    ids=[
        *(
            "bearer",
            "header",
            "one of two headers",
            "cookie",
            "basic password",
            "basic token",
            "query",
            "URL",
        ),
        *("URL as a header", "user of a URL", "body", "header in a body", "other header in a body"),
    ],
)
def test_a_credential_is_found_wherever_a_request_carries_it(request_, secret):
    assert secret in credentials(request_)


@pytest.mark.parametrize(
    "content",
    [b"", b"no json", b"[" * 100_000, b"\xff", b'{"key": "temperature"}', b'{"access_token": "string"}'],
    ids=["empty", "text", "deep", "bytes", "an argument named key", "a word of a schema"],
)
def test_a_body_without_credentials_has_none(content):
    assert credentials(httpx.Request("POST", "http://h", content=content)) == set()


@pytest.mark.parametrize("header", ["Basic", "Basic ???", "Basic /////w=="])
def test_a_basic_header_that_is_none_is_still_a_secret(header):
    assert header in credentials(httpx.Request("GET", "http://h", headers={"Authorization": header}))


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
}


@pytest.mark.parametrize("spell", SPELLINGS.values(), ids=SPELLINGS)
def test_a_secret_is_hidden_in_every_spelling(spell):
    assert hide(f"before {spell(ODD)} after", [ODD]) == "before [hidden] after"


@given(SECRETS, st.sampled_from([*SPELLINGS.values()]))
@example("\\" * 5, in_json)
@example("a\\\\/\\b", SPELLINGS["JSON within JSON within JSON"])
@example("\x00\x08\x0c\r\n\t", in_json)
def test_any_secret_is_hidden_whole(secret, spell):
    if spell is SPELLINGS["URL in small letters"] and secret != secret.lower():
        secret = secret.lower() * 4
    assert hide(f"«{spell(secret)}»", [secret]).strip("«»") in ("[hidden]", spell(secret) * (len(secret) < 4))


@given(st.lists(st.sampled_from(["sk-1234", "sk-", "1234", "data: ", "ü", "\n"])), st.data())
def test_wherever_the_chunks_are_broken_as_many_come_out_and_no_secret(parts, data):
    whole = "".join(parts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    hidden = hide_in_chunks(chunks, ["sk-1234"])
    assert len(hidden) == len(chunks)
    assert b"".join(hidden) == whole.replace(b"sk-1234", b"[hidden]")


def test_a_broken_secret_is_hidden_in_the_chunk_where_it_starts():
    chunks = [b"a sk", b"-12", b"", b"34 b", b"c"]
    assert hide_in_chunks(chunks, ["sk-1234"]) == [b"a [hidden]", b"", b"", b" b", b"c"]


def test_what_a_body_that_broke_off_has_of_a_secret_is_hidden():
    chunks = [b"a sk", b"-12"]
    assert hide_in_chunks(chunks, ["sk-1234", "no-key"], cut=True) == [b"a [hidden]", b""]
    assert hide_in_chunks(chunks, ["sk-1234"]) == chunks  # whole: it is no part of anything
    assert hide_in_chunks([b"a sk-"], ["sk-1234"], cut=True) == [b"a sk-"]
    assert hide_in_chunks([b"ab-1234"], ["ab-1234", "1234567"], cut=True) == [b"[hidden]"]


def test_secrets_that_overlap_leave_nothing():
    assert hide("key-abcd-key abcdef", ["key-abcd", "abcd-key", "abcd", "abcdef"]) == "[hidden] [hidden]"


def test_tiny_secrets_leave_the_text_readable():
    assert hide("a b sk-", ["", "b", "sk-"]) == "a b sk-"


def test_half_a_surrogate_pair_is_text_like_any_other():
    assert hide("\ud83d key-1", ["key-1", "\ud83d???"]) == "\ud83d [hidden]"
    assert hide_in_chunks([b"a"], ["\ud83d???"], cut=True) == [b"a"]


def test_long_runs_of_backslashes_come_to_an_end():
    text = "\\" * 10_000
    assert hide(text, ["a\\b\\\\c", "\\" * 12 + "x"]) == text


def test_the_token_of_a_basic_header_is_hidden_in_an_answer():
    token = b64encode(b"me:hunter22").decode()
    request = httpx.Request("GET", "http://h", headers={"Authorization": f"Basic {token}"})
    assert hide(f"bad {token}, bad hunter22", credentials(request)) == "bad [hidden], bad [hidden]"
