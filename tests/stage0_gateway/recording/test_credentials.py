from base64 import b64encode

import httpx

from stage0_gateway.http.redaction import redact
from stage0_gateway.recording.credentials import credentials, names_a_credential
from tests.tables import for_each


@for_each(
    "name",
    [
        *(
            "authorization",
            "proxy-authorization",
            "x-api-key",
            "x-goog-api-key",
            "api-key",
            "cookie",
        ),
        *("key", "api_key", "access_token", "accessToken", "APIKey", "sig", "X-Amz-Signature"),
    ],
)
def test_names_of_credentials_are_recognized(name):
    assert names_a_credential(name)


@for_each(
    "name",
    [
        "content-type",
        "x-ratelimit-remaining-tokens",
        "max_tokens",
        "keywords",
        "x-request-id",
        "alt",
    ],
)
def test_other_names_are_not_credentials(name):
    assert not names_a_credential(name)


@for_each(
    "request_, secret",
    [
        (httpx.Request("GET", "http://h", headers={"Authorization": "Bearer sk-1"}), "sk-1"),
        (httpx.Request("GET", "http://h", headers={"x-api-key": "sk-1"}), "sk-1"),
        (
            httpx.Request("GET", "http://h", headers=[("api-key", "sk-1"), ("api-key", "sk-2")]),
            "sk-1",
        ),
        (httpx.Request("GET", "http://h", headers={"cookie": "a=1; session=sk-1"}), "sk-1"),
        (httpx.Request("GET", "http://h", headers={"Authorization": "Basic bWU6c2stMQ=="}), "sk-1"),
        (
            httpx.Request("GET", "http://h", headers={"Authorization": "Basic bWU6c2stMQ=="}),
            "bWU6c2stMQ==",
        ),
        (httpx.Request("GET", "http://h/?alt=sse&key=sk%2F1"), "sk/1"),
        (httpx.Request("GET", "http://h", headers={"Authorization": "Basic c2stMTo="}), "sk-1"),
        (
            httpx.Request("POST", "http://h", json={"tools": [{"authorization": "sk-12345"}]}),
            "sk-12345",
        ),
        (httpx.Request("POST", "http://h", json={"h": {"Authorization": "Bearer sk-1"}}), "sk-1"),
        (
            httpx.Request("POST", "http://h", json={"headers": {"X-Api-Key": "sk-12345"}}),
            "sk-12345",
        ),
    ],
)
def test_a_credential_is_found_anywhere_in_a_request(request_, secret):
    assert secret in credentials(request_)


@for_each(
    "content",
    [
        # empty
        b"",
        # text
        b"no json",
        # deep
        b"[" * 100_000,
        # bytes
        b"\xff",
        # an argument named key
        b'{"key": "temperature"}',
        # a name in a schema
        b'{"access_token": "string"}',
    ],
)
def test_a_body_without_credentials_has_none(content):
    assert credentials(httpx.Request("POST", "http://h", content=content)) == set()


@for_each("header", ["Basic", "Basic ???", "Basic /////w=="])
def test_an_invalid_basic_header_is_a_secret(header):
    assert header in credentials(
        httpx.Request("GET", "http://h", headers={"Authorization": header})
    )


def test_the_token_of_a_basic_header_is_hidden_in_a_reply():
    token = b64encode(b"me:hunter22").decode()
    request = httpx.Request("GET", "http://h", headers={"Authorization": f"Basic {token}"})
    assert (
        redact(f"bad {token}, bad hunter22", credentials(request)) == "bad [hidden], bad [hidden]"
    )
