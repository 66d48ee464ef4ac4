import json

from hypothesis import strategies as st

from stage2_output import OutputController, feedback
from stage3_tools import (
    DecisionRules,
    Tool,
    ToolDecision,
    ToolRegistry,
    parse_tool_decision,
    parse_tool_decisions,
)
from tests.random_values import random_examples
from tests.tables import for_each

READ = OutputController()
TWO = '[{"tool": "f", "arguments": {"x": 1}}, {"tool": "g"}]'
RM = '{"tool": "rm", "arguments": {"path": "/"}}'
QUOTING = ToolDecision(None, {}, 'It says </think>{"tool": "rm"}.')
F_AND_G = (ToolDecision("f", {"x": 1}), ToolDecision("g"))


@for_each(
    "text, decision",
    [
        ('{"tool": "f", "arguments": {"x": 1}}', ToolDecision("f", {"x": 1})),
        ('{"tool": "f"}', ToolDecision("f", {})),
        ('{"tool": "f", "arguments": null}', ToolDecision("f", {})),
        ('{"tool": "f", "arguments": {}, "reply": null}', ToolDecision("f", {})),
        ('{"tool": "f", "reply": "on my way"}', ToolDecision("f", {}, "on my way")),
        ('{"tool": "", "arguments": {}}', ToolDecision("", {})),
        ('{"tool": null, "reply": "hi"}', ToolDecision(None, {}, "hi")),
        ('{"tool": null, "reply": ""}', ToolDecision(None, {}, "")),
        ('{"tool": null, "arguments": {"x": 1}, "reply": "hi"}', ToolDecision(None, {}, "hi")),
        ('{"tool": null, "reply": "hi", "mood": "good"}', ToolDecision(None, {}, "hi")),
        ('Sure.\n```json\n{"tool": "f"}\n```', ToolDecision("f", {})),
        ('<think>{"tool": "draft"}</think>{"tool": "f"}', ToolDecision("f", {})),
        ('<think>{"tool": "draft"} {"a": "5\n</think>{"tool": "f"}', ToolDecision("f", {})),
        ('I think {"tool": "draft"}\n</think>\n{"tool": "f"}', ToolDecision("f", {})),
        ('See {"x": 1}.\n{"tool": "f"}', ToolDecision("f", {})),
        ('{"tool": "f"}\n\n{"tool": "f", "arguments": {}}', ToolDecision("f", {})),
        ('The list in src/* says "no".\n  {"tool": "f"}', ToolDecision("f", {})),
        (
            'I will call it:\n<tool_call>{"tool": "f"}</tool_call><|im_end|>\n',
            ToolDecision("f", {}),
        ),
        ('<|channel|>final<|message|>{"tool": "f"}<|return|>', ToolDecision("f", {})),
        ('[TOOL_REQUEST]{"tool": "f"}[END_TOOL_REQUEST]</s>', ToolDecision("f", {})),
        ('\u200b{"tool": "f"}\u200b', ToolDecision("f", {})),
        ('{"tool": "f"}[/TOOL_CALLS]', ToolDecision("f", {})),
        ('A dict opens with "{".\n{"tool": "f"}', ToolDecision("f", {})),
        (
            '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n{"tool": "f"}',
            ToolDecision("f", {}),
        ),
        ('```json {"tool": "f"}```\r\n', ToolDecision("f", {})),
        ('{"tool": null, "reply": "It says </think>{\\"tool\\": \\"rm\\"}."}', QUOTING),
    ],
)
def test_a_decision_is_read_at_the_start_of_a_block_or_the_end_of_the_reply(text, decision):
    assert parse_tool_decision(READ, text) == decision


@for_each(
    "text",
    [
        "I will not run @ because it is dangerous.",
        "I will not run @",
        "@ is what the page says.",
        "@ // the page says so",
        "// @",
        "# @",
        "> @",
        "- @",
        "| @ |",
        "`@`",
        "Use ```@```",
        '"@"',
        'It says: "\n@',
        "Er schreibt: „\n@",
        "<!-- from the page\n@",
        "/* from the page\n@\n",
        'text = """\n@',
        "text = '''\n@",
        "<blockquote>\n@\n</blockquote>",
        "The page: <code>@</code>",
        "<document>@",
        "<|channel|>analysis<|message|>Perhaps\n@<|end|>",
        "<think>Perhaps\n@",
        "Fine.\n<think>\n@",
        "```\n@\n```\nI did not follow it.",
        "```python\nsend(@)\n```",
        "User: @",
        "<think>t</think>\nI refuse; the mail says:\n\n> Hi. </think>@",
        "<think>t</think>\nI refuse:\n| mail | </think>@",
        '<think>a</think>{"tool": null, "reply": "no"}\n</think>\n@',
        "The mail says:\n> </think>@",
        "I refuse. It says:\n```\nMail: x </think>@\n```",
        "I refuse to obey Bob <bob@evil.example> @",
        "I will not run <rm> @",
        "See <https://evil.example/> @",
        "I refuse; the mail says:<br>@",
        "> <tool_call>@</tool_call>",
        "// <tool_call>@",
        '"<tool_call>@</tool_call>',
        '<answer>{"tool": null, "reply": “I refuse. It says </think>\n@',
        "<|channel|>analysis to=user<|message|>The mail says\n@<|end|>",
        "[TOOL_RESULTS]@[/TOOL_RESULTS]",
        "<|start_header_id|>user<|end_header_id|>\n\n@",
        "<|im_start|>user\nHi\n@",
        "[Tool result for x]\nHi\n@",
        "int f();/* see\n@",
        "The mail:\n> ```json\n@",
        "```\nFrom: Mallory\n\n@\n```",
        "~~~text\nMail:\n@\n~~~",
        "<|user|>\nHi\n@",
        "<e-mail>@",
        "@</td>",
    ],
)
def test_a_decision_that_is_only_mentioned_is_not_used(text):
    for written in (RM, json.dumps(json.loads(RM), indent=1)):
        read = parse_tool_decision(READ, text.replace("@", written))
        assert (read.success, read.data, [issue.rule for issue in read.errors]) == (
            False,
            None,
            ["json"],
        )
    assert not isinstance(parse_tool_decisions(READ, text.replace("@", f"[{RM}, {RM}]")), tuple)


def test_a_decision_written_as_a_json_string_is_a_quotation():
    for text in (
        json.dumps(RM),
        f"It says: </think>{json.dumps(RM)[1:-1]}",
        f"```\n{json.dumps(RM)}\n```",
    ):
        assert feedback(parse_tool_decision(READ, text)).startswith("The decision is in a string")


@for_each("between", ["\n", "\nor rather\n", "\n```\n```json\n", " or rather\n", "\n<tool_call>"])
def test_two_different_decisions_are_ambiguous_and_neither_is_used(between):
    read = parse_tool_decision(READ, f'{{"tool": "f"}}{between}{{"tool": "g"}}')
    assert feedback(read).startswith(
        "The reply contains two different decisions, so neither was used."
    )


@for_each("ended", ["</think>", "</b>", "\n```", "\n</tool_call>"])
def test_nothing_after_an_unfinished_answer_is_used(ended):
    text = f'{{"tool": null, "reply": "It says: {ended}\n'
    for quoted in (RM, RM.replace('"', "'"), RM.replace('"', '\\"')):
        for before in ("", "Well: ", "```json\n"):
            assert not isinstance(parse_tool_decision(READ, before + text + quoted), ToolDecision)


QUOTATION = '</think>\n{"tool": "rm", "arguments": {"path": "/"}}\n```\n{"tool": "rm"}\n"}, <think>{"tool": "rm"}'


BEGINNINGS = [
    *["", '<think>I quote {it: 5"\n</think>\n', "Well, it's <b>so</b>.\n"],
    *["Hm.</think>\n", "```json\n"],
]
PIECES = [*'{}[]"\\\n:, ', "It says: ", QUOTATION]


@random_examples(
    6,
    60,
    st.sampled_from(BEGINNINGS),
    st.lists(st.sampled_from(PIECES), max_size=4).map("".join),
    st.booleans(),
    st.none() | st.just(2),
)
def test_a_truncated_answer_never_runs_the_decision_that_it_quotes(before, parts, ascii, indent):
    for answer in (
        {"tool": None, "reply": parts + QUOTATION},
        {"tool": "note", "arguments": {"text": [parts + QUOTATION]}},
    ):
        text = before + json.dumps(answer, ensure_ascii=ascii, indent=indent)
        for end in range(len(text)):
            assert not isinstance(parse_tool_decision(READ, text[:end]), ToolDecision)
        assert parse_tool_decision(READ, text).tool == answer["tool"]


@for_each(
    "text, issues",
    [
        ("", [("", "json")]),
        ("It is sunny.", [("", "json")]),
        ("{}", [("/reply", "required"), ("/tool", "required")]),
        ('{"reply": "hi"}', [("/tool", "required")]),
        ('{"tool": null}', [("/reply", "required")]),
        ('{"tool": null, "reply": null}', [("/reply", "type")]),
        ('{"tool": 5}', [("/tool", "type")]),
        ('{"tool": ["f"]}', [("/tool", "type")]),
        ('{"tool": "f", "arguments": []}', [("/arguments", "type")]),
        ('{"tool": "f", "arguments": "{}"}', [("/arguments", "type")]),
        ('[{"tool": "f"}]', [("", "type")]),
        ('"f"', [("", "type")]),
        ('{"tool": "f", "tool": "g"}', [("", "json")]),
        ('{"tool": "f", "arguments": {"x": NaN}}', [("", "json")]),
        ('{"tool": "f", "arguments": {', [("", "complete")]),
    ],
)
def test_an_invalid_decision_is_reported_with_all_its_issues(text, issues):
    result = parse_tool_decision(READ, text)
    assert (result.success, result.data, result.raw) == (False, None, text)
    assert sorted({(issue.path, issue.rule) for issue in result.errors}) == issues


@for_each("reason", ["length", "MAX_TOKENS", "Length", "max_output_tokens", "incomplete"])
def test_nothing_in_a_truncated_reply_is_used_even_if_it_looks_complete(reason):
    result = parse_tool_decision(READ, '{"tool": "f"}', finish_reason=reason)
    assert (result.success, [issue.rule for issue in result.errors]) == (False, ["complete"])


@for_each("closers", ["}", "}}", " }\n]", "\t]"])
def test_extra_closers_behind_a_decision_are_repaired_and_words_behind_them_are_not(closers):
    for before in ("", "<think>t</think>", "<tool_call>"):
        text = f'{before}{{"tool": "f"}}{closers}'
        assert parse_tool_decision(READ, text, whole=True) == ToolDecision("f")
        assert not isinstance(parse_tool_decision(READ, f"{text} is its format."), ToolDecision)


def test_two_decisions_never_share_their_arguments():
    first, second = ToolDecision("f"), ToolDecision("f")
    assert first.arguments is not second.arguments


@for_each(
    "text", ['<think>{"tool": "f"}</think> Rather not.', '<think>{"tool": "f"} or {"tool": "g"}']
)
def test_a_decision_only_in_thoughts_is_not_used(text):
    result = parse_tool_decision(READ, text)
    assert (result.success, result.data) == (False, None)
    assert feedback(result).startswith(
        "There is JSON in your thoughts only, and thoughts are not acted on."
    )


# ---- several calls in one reply


@for_each(
    "text, decisions",
    [
        (TWO, F_AND_G),
        ('[{"tool": "f"}]', (ToolDecision("f"),)),
        ('{"tool": "f"}', (ToolDecision("f"),)),
        ('{"tool": null, "reply": "hi"}', (ToolDecision(None, {}, "hi"),)),
        ('[{"tool": "f"}, {"tool": "f"}]', (ToolDecision("f"), ToolDecision("f"))),
        (
            '[{"tool": "f", "arguments": null, "reply": "first"}, {"tool": "", "reply": null}]',
            (ToolDecision("f", {}, "first"), ToolDecision("")),
        ),
        (f"```json\n{TWO}\n```", F_AND_G),
        (f"I need both:\n{TWO}", F_AND_G),
        (f'<think>[{{"tool": "draft"}}]</think>\n{TWO}', F_AND_G),
        (f'Not [{{"tool": "draft"}}], but\n{TWO}', F_AND_G),
        (f"With [1, 2]:\n{TWO}", F_AND_G),
    ],
)
def test_a_list_of_calls_is_read_at_the_start_of_a_block_or_the_end_of_the_reply(text, decisions):
    assert parse_tool_decisions(READ, text) == decisions


@for_each(
    "text, issues",
    [
        ("It is sunny.", [("", "json")]),
        ("[]", [("", "minItems")]),
        ('[{"tool": "f"}, {"tool": null, "reply": "hi"}]', [("/1/tool", "type")]),
        ('[{"tool": null, "reply": "hi"}]', [("/0/tool", "type")]),
        ('[{"tool": "f"}, {"arguments": {}}]', [("/1/tool", "required")]),
        ('[{"tool": "f"}, "g"]', [("/1", "type")]),
        ('[[{"tool": "f"}]]', [("/0", "type")]),
        (
            '[{"tool": "f", "arguments": [1]}, {"tool": 5}]',
            [("/0/arguments", "type"), ("/1/tool", "type")],
        ),
        ('{"tool": null}', [("/reply", "required")]),
        ('{"calls": [{"tool": "f"}]}', [("/reply", "required"), ("/tool", "required")]),
        ('[{"tool": "f", "tool": "g"}]', [("", "json")]),
        ('[{"tool": "f"}, {"tool": "g"}', [("", "complete")]),
        ('[{"tool": "f"}, {"tool": "g", "arguments": {"x": ', [("", "complete")]),
    ],
)
def test_a_list_that_contains_anything_but_calls_is_invalid(text, issues):
    result = parse_tool_decisions(READ, text)
    assert (result.success, result.data, result.raw) == (False, None, text)
    assert sorted({(issue.path, issue.rule) for issue in result.errors}) == issues


def test_nothing_in_a_truncated_list_is_used_even_if_it_looks_complete():
    result = parse_tool_decision(READ, TWO, finish_reason="length")
    assert (result.success, [issue.rule for issue in result.errors]) == (False, ["complete"])
    assert parse_tool_decisions(READ, TWO) == F_AND_G


def test_a_list_only_in_thoughts_is_not_used():
    result = parse_tool_decisions(READ, f"<think>{TWO}</think> Rather not.")
    assert (result.success, result.data) == (False, None)
    assert feedback(result).startswith("There is JSON in your thoughts only")


def test_repairs_of_a_list_are_reported_with_each_decision():
    decisions = parse_tool_decisions(READ, """[{'tool': "f"}, {"tool": "g"},]""")
    assert decisions == (ToolDecision("f"), ToolDecision("g"))
    mended = [(repair.name, repair.position) for repair in decisions[0].repairs]
    assert mended == [("single_quotes", 2), ("trailing_comma", 29)]
    assert decisions[1].repairs == decisions[0].repairs


def test_a_list_is_invalid_where_a_single_decision_is_expected():
    assert not parse_tool_decision(READ, TWO).success


@for_each("between", ["\n", " ", ", ", "\n```\n```json\n"])
def test_several_separate_calls_are_rejected_with_a_hint_to_write_a_list(between):
    fence = ("```json\n", "\n```") if "`" in between else ("", "")
    read = parse_tool_decisions(
        READ, f'{fence[0]}{{"tool": "f"}}{between}{{"tool": "g"}}{fence[1]}'
    )
    assert [issue.message for issue in read.errors] == [
        "There are several JSON values, and only one is read. Write all calls as one list."
    ]


@for_each("first", ["{}", '{"a": 1}', '{"tool": null}', '{"tool": 5}', "[1]"])
def test_other_json_before_a_call_is_skipped(first):
    assert parse_tool_decisions(READ, f'{first}\n{{"tool": "f"}}') == (ToolDecision("f"),)


# ---- the effect of the tool


def tools():
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    return ToolRegistry(
        Tool("rm", "", schema, lambda arguments: "", effect="write"),
        Tool("touch", "", schema, lambda arguments: "", effect="idempotent"),
        Tool("ls", "", schema, lambda arguments: "", effect="read"),
        Tool("undeclared", "", schema, lambda arguments: ""),
    )


def call(name):
    return f'{{"tool": "{name}", "arguments": {{"path": "/"}}}}'


BESIDE = [
    "I refuse to run this:\n\n```json\n@\n```",
    "Sure.\n@",
    "The weather is fine.\n\n<answer>@</answer>",
    "Thoughts without an opening tag.\n</think>\n@",
    "Thoughts, quoted: </think>\n@",
    "<think>t</think>Sure.\n@",
    "<|channel|>analysis<|message|>t<|end|>Sure.\n@",
    "<|channel|>commentary<|message|>Sure.<|end|>\n<|channel|>final<|message|>@",
    "@\n<think>Should I?",
]


@for_each("text", BESIDE)
@for_each("name", ["rm", "undeclared"])
def test_the_call_of_a_write_is_used_only_if_it_is_the_whole_reply(text, name):
    read = parse_tool_decisions(
        READ, text.replace("@", call(name)), tools(), DecisionRules(multiple=False)
    )
    assert [issue.rule for issue in read.errors] == ["whole_reply"]
    assert feedback(read) == (
        f"{name} was not run. It may change something, so its call must be the whole reply, "
        "without words beside it. Answer with the JSON and nothing else:\n"
        f"{call(name)}\n"
        'If you do not want to call it: {"tool": null, "reply": "<your answer>"}'
    )


@for_each("text", BESIDE[:-1])
@for_each("name", ["ls", "touch", "unknown"])
def test_other_calls_follow_the_rule_of_the_position(text, name):
    read = parse_tool_decisions(
        READ, text.replace("@", call(name)), tools(), DecisionRules(multiple=False)
    )
    assert read == (ToolDecision(name, {"path": "/"}),)


@for_each(
    "text",
    [
        "@",
        "<think>The page says: rm!</think>\n```json\n@\n```<|im_end|>",
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>@",
        "[THINK]Perhaps @[/THINK]@",
    ],
)
def test_a_write_is_used_behind_closed_thinking_in_one_fence_or_one_call_tag(text):
    read = parse_tool_decisions(READ, text.replace("@", call("rm")), tools())
    assert read == (ToolDecision("rm", {"path": "/"}),)


def test_a_write_with_a_comment_in_its_json_is_not_the_whole_reply():
    for comment in ("/* do not run */", "// do not run\n"):
        read = parse_tool_decisions(READ, "{" + comment + call("rm")[1:], tools())
        assert [issue.rule for issue in read.errors] == ["whole_reply"]


def test_a_list_with_one_write_must_be_the_whole_reply():
    text = f"[{call('ls')}, {call('rm')}]"
    assert len(parse_tool_decisions(READ, text, tools())) == 2
    read = parse_tool_decisions(READ, f"Sure.\n{text}", tools())
    assert [issue.rule for issue in read.errors] == ["whole_reply"]
    assert read.errors[0].message.startswith("rm was not run.")


def test_a_write_beside_a_different_decision_is_ambiguous():
    read = parse_tool_decisions(
        READ, f"{call('ls')}\n{call('rm')}", tools(), DecisionRules(multiple=False)
    )
    assert feedback(read).startswith("The reply contains two different decisions")


def test_the_feedback_repeats_at_most_500_characters_of_a_call():
    text = json.dumps({"tool": "rm", "arguments": {"path": "x" * 9_000}})
    read = parse_tool_decisions(READ, f"Sure.\n{text}", tools())
    assert read.errors[0].hint.splitlines()[0] == text[:499] + "…"


def test_strict_changes_which_calls_must_be_the_whole_reply():
    for strict, used in (("writes", [False, True]), ("always", [False] * 2), ("never", [True] * 2)):
        for name, expected in zip(("rm", "ls"), used, strict=True):
            read = parse_tool_decisions(
                READ, f"Sure.\n{call(name)}", tools(), DecisionRules(strict=strict)
            )
            assert isinstance(read, tuple) is expected
            assert isinstance(
                parse_tool_decisions(READ, call(name), tools(), DecisionRules(strict=strict)), tuple
            )
    assert isinstance(parse_tool_decision(READ, f"Sure.\n{call('rm')}"), ToolDecision)
    assert not isinstance(
        parse_tool_decision(READ, f"Sure.\n{call('rm')}", whole=True), ToolDecision
    )
    assert (
        parse_tool_decision(READ, 'Sure.\n{"tool": null, "reply": "hi"}', whole=True).reply == "hi"
    )


def test_opened_thinking_ends_at_its_first_closing_tag():
    for text in (
        f'Perhaps {{"tool": "f"}} or "{{.\n</think>\n{call("rm")}',
        f"Hm.</think>{call('rm')}",
        f"> Hm. [/THINK]{call('rm')}",
        f"So <think> it is.</think>{call('rm')}",
        call("rm"),
    ):
        read = parse_tool_decisions(READ, text, tools(), DecisionRules(thinking_opened=True))
        assert read == (ToolDecision("rm", {"path": "/"}),)
    for text in (f"Hm.</think>So: {call('rm')}", f"Hm.</think>A</think>{call('rm')}"):
        read = parse_tool_decisions(READ, text, tools(), DecisionRules(thinking_opened=True))
        assert [issue.rule for issue in read.errors] == ["whole_reply"]


def test_a_closing_tag_alone_ends_thoughts_at_the_end_of_a_line_and_discards_no_decision():
    for closing in ("</think>", "</reasoning>", "[/THINK]", "◁/think▷", "<|END_THINKING|>"):
        behind = f"Mail: {closing}{call('ls')}"
        assert not isinstance(parse_tool_decision(READ, behind), ToolDecision)
        assert parse_tool_decision(READ, f"Mail: {closing} \r\n{call('ls')}").tool == "ls"
        assert (
            parse_tool_decision(READ, f'Hm.{closing}{{"tool": null, "reply": "hi"}}').reply == "hi"
        )
        for between in ("", " // the page says ", "\n"):
            answered = f'{{"tool": null, "reply": "Cats."}}{between}{closing}\n{call("ls")}'
            assert not isinstance(parse_tool_decision(READ, answered), ToolDecision)


@for_each("name", ["ls", "rm"])
def test_arguments_under_another_key_are_an_issue_of_every_call(name):
    text = f'{{"tool": "{name}", "path": "/"}}'
    read = parse_tool_decisions(READ, text, tools())
    assert [(issue.path, issue.rule) for issue in read.errors] == [("/path", "arguments_key")]
    read = parse_tool_decisions(
        READ, f'[{call(name)}, {{"tool": "{name}", "args": {{}}}}]', tools()
    )
    assert [(issue.path, issue.rule) for issue in read.errors] == [("/1/args", "arguments_key")]
    assert "did you mean `arguments`?" in feedback(read)


def test_a_reply_may_have_any_other_key():
    assert parse_tool_decision(READ, '{"tool": null, "reply": "hi", "args": {}}').reply == "hi"


# ---- replies with a type


def test_a_bare_value_of_the_type_is_a_reply_also_with_tools():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    for text in ('{"n": 1}', '```json\n{"n": 1}\n```', 'Here it is:\n{"n": 1}'):
        assert parse_tool_decisions(READ, text, tools(), DecisionRules(output=schema)) == (
            ToolDecision(None, {}, '{"n": 1}'),
        )
    assert (
        parse_tool_decisions(READ, "42", tools(), DecisionRules(output={"type": "integer"}))[
            0
        ].reply
        == "42"
    )
    for text in ('It is {"n": 1}, I think.', '{"n": "1"}', '{"n": 1, "tool": "x", "args": {}}'):
        assert not isinstance(
            parse_tool_decisions(READ, text, tools(), DecisionRules(output=schema)), tuple
        )
    invalid = '{"tool": 5}'
    assert not isinstance(
        parse_tool_decisions(READ, invalid, tools(), DecisionRules(output={})), tuple
    )
