import pytest

from stage0_gateway import Message, Usage
from stage1_context import Calibration, ContextEngine, KeepSystemAndRecent, Transcript
from tests.stage1_context.sessions import CharacterCounter, engine_with
from tests.tables import for_each


def test_the_ratio_is_one_before_the_first_report():
    assert Calibration().ratio == 1.0


def test_the_first_report_sets_the_ratio_with_a_safety_margin():
    calibration = Calibration()
    calibration.learn(1000, Usage(input_tokens=1200))
    assert calibration.ratio == pytest.approx(1.2 * 1.03)


def test_later_reports_change_the_ratio_smoothly():
    calibration = Calibration()
    calibration.learn(1000, Usage(input_tokens=1000))
    calibration.learn(1000, Usage(input_tokens=2000))
    assert calibration.ratio == pytest.approx((0.7 * 1000 + 2000) / (0.7 * 1000 + 1000) * 1.03)
    for _ in range(50):
        calibration.learn(1000, Usage(input_tokens=2000))
    assert calibration.ratio == pytest.approx(2.0 * 1.03, rel=1e-4)


@for_each(
    "estimated, usage",
    [
        (1000, None),
        (1000, Usage()),
        (1000, Usage(input_tokens=0)),
        (1000, Usage(input_tokens=399)),
        (1000, Usage(input_tokens=2501)),
        (1000, Usage(input_tokens=1200, cached_input_tokens=800)),
        (1000, Usage(input_tokens=1200, cache_write_tokens=800)),
        (0, Usage(input_tokens=1200)),
        (-5, Usage(input_tokens=1200)),
    ],
)
def test_a_report_that_cannot_be_compared_is_ignored(estimated, usage):
    calibration = Calibration()
    calibration.learn(estimated, usage)
    assert calibration.ratio == 1.0


@for_each("ratio", [0.4, 2.5])
def test_the_largest_and_smallest_plausible_ratios_are_accepted(ratio):
    calibration = Calibration()
    calibration.learn(3000, Usage(input_tokens=int(3000 * ratio), cached_input_tokens=0))
    assert calibration.ratio == pytest.approx(ratio * 1.03)


def test_a_short_request_has_little_effect_on_the_ratio():
    calibration = Calibration()
    calibration.learn(20, Usage(input_tokens=10))
    assert 1.0 < calibration.ratio < 1.03


def test_a_long_request_outweighs_an_earlier_short_one():
    calibration = Calibration()
    calibration.learn(12, Usage(input_tokens=28))  # a greeting with the overhead of the server
    calibration.learn(2000, Usage(input_tokens=2000))
    assert calibration.ratio == pytest.approx(1.03, abs=0.01)


async def test_a_high_ratio_does_not_make_a_request_impossible():
    window = KeepSystemAndRecent(max_tokens=100)
    engine = await engine_with(Message.system("x" * 40), window=window)
    for text in ("hi", "y" * 40):
        await engine.add_message("s", Message.user(text))
        sent = await engine.messages_for_request("s")
        engine.report_usage("s", Usage(input_tokens=2 * server_count(sent, "", 1.0)))
    assert (await engine.messages_for_request("s"))[-1].text == "y" * 40


def server_count(messages, extra, ratio):
    """Return the tokens of a request that a server counts."""
    return round(ratio * (sum(4 + len(message.text) for message in messages) + len(extra)))


@for_each("ratio", [0.5, 0.9, 1.0, 1.3, 2.4])
@for_each("reserve", [0, 200])
async def test_with_a_constant_ratio_no_request_after_the_first_report_exceeds_the_window(
    ratio, reserve
):
    window = 1000
    transcript = Transcript.of([], KeepSystemAndRecent(max_tokens=window), CharacterCounter())
    largest = 0
    for number in range(200):
        await transcript.append(Message.user(f"{number} " + "x" * (number * 7 % 60)))
        sent = await transcript.for_request(extra_text="the tools", reserve_tokens=reserve)
        reported = server_count(sent, "the tools", ratio)
        if number:
            largest = max(largest, reported)
        transcript.report_usage(Usage(input_tokens=reported))
    assert window * 0.85 < largest + reserve <= window


async def test_the_ratio_is_shared_by_all_sessions_of_an_engine():
    engine = ContextEngine(
        window=KeepSystemAndRecent(max_tokens=40), token_counter=CharacterCounter()
    )
    for session_id in ("one", "other"):
        await engine.create_session(session_id)
        for text in ("first", "second"):
            await engine.add_message(session_id, Message.user(text + " " * 4))
    assert len(await engine.messages_for_request("one")) == 2
    engine.report_usage("one", Usage(input_tokens=54))  # the engine counted 4 + 9 + 4 + 10
    assert len(await engine.messages_for_request("other")) == 1


async def test_a_report_applies_to_the_last_request():
    calibration, window = Calibration(), KeepSystemAndRecent(max_tokens=10_000)
    store = (await engine_with(Message.user("x" * 96))).store
    transcript = Transcript(store, "s", window, CharacterCounter(), calibration)
    transcript.report_usage(Usage(input_tokens=100))
    assert calibration.ratio == 1.0
    await transcript.for_request(extra_text="x" * 100)
    await transcript.select(extra_text="x" * 1000)
    transcript.report_usage(Usage(input_tokens=300))
    assert calibration.ratio == pytest.approx(1.5 * 1.03)
