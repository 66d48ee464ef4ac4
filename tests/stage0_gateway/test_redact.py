from stage0_gateway.redact import redact


def test_every_occurrence_of_every_secret_is_hidden():
    assert redact("a KEY-1 b KEY-1 c KEY-2", ["KEY-1", "KEY-2"]) == "a [hidden] b [hidden] c [hidden]"


def test_empty_and_tiny_secrets_leave_the_text_readable():
    assert redact("a b c", ["", "b"]) == "a b c"
