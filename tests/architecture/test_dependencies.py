"""`pyproject.toml` declares every distribution that the packages import."""

import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.architecture.sources import imports
from tests.tables import for_each

ROOT = Path(__file__).parents[2]
PACKAGES = ["stage0_gateway", "stage1_context", "stage2_output", "stage3_tools", "llm_stages"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PART_OF = {"pydantic-core": "pydantic"}  # released together; pydantic pins its version


def names(requirements: list[str]) -> set[str]:
    """Return the normalized names of the distributions in a list of requirements."""
    return {normalized(re.match(r"[\w.-]+", each)[0]) for each in requirements}


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(source: str) -> set[str]:
    """Return the top-level modules that a source imports, also inside functions."""
    absolute = [name for name, _ in imports(source) if not name.startswith(".")]
    modules = {name.partition(".")[0] for name in absolute}
    return modules - set(sys.stdlib_module_names) - {*PACKAGES}


@cache
def installed() -> Mapping[str, list[str]]:
    """Return the distributions that provide each importable module."""
    return packages_distributions()


def undeclared(source: str, declared: set[str]) -> set[str]:
    """Return the imported modules that no declared distribution provides."""
    providers = installed()

    def is_declared(module: str) -> bool:
        found = {normalized(each) for each in providers.get(module, ())}
        return not declared.isdisjoint({PART_OF.get(each, each) for each in found})

    return {module for module in imported(source) if not is_declared(module)}


@for_each("package", PACKAGES)
def test_every_imported_distribution_is_declared(package):
    runtime = [extra for extra in EXTRAS if extra not in ("bench", "test", "dev")]
    declared = names(PROJECT["dependencies"]).union(*(names(EXTRAS[extra]) for extra in runtime))
    sources = [path.read_text() for path in sorted((ROOT / package).rglob("*.py"))]
    assert set().union(*(undeclared(source, declared) for source in sources)) == set()


def test_an_undeclared_import_is_found():
    source = (
        "import httpx, json\nfrom stage0_gateway import Gateway\n"
        "def later():\n    from hypothesis import given"
    )
    assert undeclared(source, {"httpx"}) == {"hypothesis"}


def test_the_required_distributions_are_four_and_five_small_ones():
    small = {"sniffio", "stamina", "griffelib", "regex", "typing-extensions"}
    installed_with_jsonschema = {"referencing", "jsonschema-specifications"}
    core = names(PROJECT["dependencies"]) - installed_with_jsonschema
    assert core == {"pydantic", "jsonschema", "httpx", "tiktoken"} | small
