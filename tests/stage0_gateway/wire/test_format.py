from stage0_gateway.http.endpoint import PROVIDERS
from stage0_gateway.wire.format import WireFormat


def test_every_provider_has_a_complete_wire_format():
    names = [name for name in vars(WireFormat) if not name.startswith("_")]
    missing = {
        (provider, name)
        for provider, each in PROVIDERS.items()
        for name in names
        if not callable(getattr(each.wire, name, None))
    }
    assert (len(names), missing) == (8, set())


def test_each_format_has_a_name_of_its_own():
    names = [each.wire.NAME for each in PROVIDERS.values()]
    assert {*names} == {"openai", "mistral", "anthropic", "gemini", "openai-responses"}
