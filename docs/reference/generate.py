"""Write the reference: one page per package, from the signatures and the docstrings.

    make reference        or: python docs/reference/generate.py

The packages are read with griffe and are not imported. A page lists the public names of a package
by module, in the reading order of the package's docstring. Names of another package are links to
its page. The output depends on the code only, so a test can compare it with the pages.
"""

import ast
import builtins
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[2]
LESSONS = {
    "stage0_gateway": "1-gateway",
    "stage1_context": "2-context",
    "stage2_output": "3-output",
    "stage3_tools": "4-tools",
}
"""The stages, and the lesson of each."""

PACKAGES = [*LESSONS, "llm_stages"]
WIDTH = 88
"""Longer signatures have one parameter per line."""

OPERATIONS = {
    "__len__": "`len(…)`",
    "__iter__": "`for`",
    "__contains__": "`in`",
    "__getitem__": "`[…]`",
    "__add__": "`+`",
    "__aiter__": "`async for`",
    "__aenter__": "`async with`",
}
"""Methods of operators, and how the reference names them."""


def main() -> None:
    """Write all pages."""
    for name, text in pages().items():
        (Path(__file__).parent / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """Return the text of each page by its file name."""
    loader = griffe.GriffeLoader(search_paths=[ROOT], docstring_parser="google")
    written: dict[str, Page] = {}  # the pages to which later ones may link
    texts = {}
    for name in PACKAGES:
        written[name] = Page(loader.load(name), dict(written))
        texts[f"{name}.md"] = written[name].text()
    return texts


class Page:
    """The reference of one package.

    Args:
        package: The package, read by griffe.
        written: The pages of the packages whose names it may export as well, by package.
    """

    def __init__(self, package: Any, written: "dict[str, Page]") -> None:
        self.package, self.written = package, written
        self.public = public_names(package)
        self.blocks: list[str] = []
        self.anchors: dict[str, str] = {}  # by the name of an object or a file
        self.types: dict[str, Any] = {}  # type aliases in signatures

    def text(self) -> str:
        """Return the page."""
        groups = self.groups()
        for module, names in groups.items():
            self.add_module(module, names)
        self.add_types()
        links = self.names_of_stages()
        blocks = [*self.introduction(), self.contents(groups), *links, *self.blocks]
        return "\n\n".join(blocks) + "\n"

    def groups(self) -> dict[str, list[str]]:
        """Return the public names by module, in reading order."""
        names: dict[str, list[str]] = {}
        for name, target in self.public.items():
            module = target.parent.path.removeprefix(f"{self.package.name}.")
            names.setdefault(module, []).append(name)
        for members in names.values():
            members.sort(key=lambda name: self.public[name].lineno)
        return {module: names[module] for module in self.modules() if module in names}

    def modules(self) -> Iterator[str]:
        """Yield the modules in reading order: the top level, then the rooms."""
        top, _, rooms = docstring_of(self.package).partition("Rooms:")
        yield from re.findall(r"^ +(\w+) {2,}\S", top.partition("Reading order:")[2], re.MULTILINE)
        for room in re.findall(r"^ +(\w+)/ {2,}\S", rooms, re.MULTILINE):
            yield from self.modules_of_room(room)

    def modules_of_room(self, room: str) -> Iterator[str]:
        """Yield the modules of a room, and then those of the rooms inside of it."""
        description = docstring_of(self.package[room])
        for module in re.findall(r"^ *(\w+) {2,}\S", description, re.MULTILINE):
            yield f"{room}.{module}"
        for inner in re.findall(r"^ +(\w+)/ {2,}\S", description, re.MULTILINE):
            yield from self.modules_of_room(f"{room}.{inner}")

    def introduction(self) -> list[str]:
        """Return the blocks above the list of names."""
        name = self.package.name
        lesson = LESSONS.get(name)
        link = f"[Lesson {lesson[0]}](../learn/{lesson}.md)" if lesson else "Reference"
        scope = f"This page lists every public name of `{name}`."
        if not lesson:
            scope = f"This page describes the names that `{name}` defines."
        return [
            f"[Docs](../README.md) > {link} > **Reference: {name}**",
            f"# Reference: {name}",
            *paragraphs(docstring_of(self.package).partition("Reading order:")[0]),
            f"{scope} Import the names from `{name}`.",
            "It is generated from the docstrings; `make reference` writes it again.",
        ]

    def names_of_stages(self) -> list[str]:
        """Return the blocks that list the names which another package defines, with links."""
        rows = []
        for stage, page in self.written.items():
            names = exported_names(self.package, stage)
            links = [f"[`{name}`]({stage}.md#{page.anchors[name]})" for name in names]
            if links:
                rows.append((f"[{stage}]({stage}.md)", ", ".join(links)))
        if not rows:
            return []
        package = self.package.name
        text = f"`{package}` also exports the names of the stages that most programs need."
        return ["## Names of the stages", text, table(("Stage", "Names"), rows)]

    def contents(self, groups: dict[str, list[str]]) -> str:
        """Return the table of all names, by module."""
        rows = []
        for module, names in groups.items():
            links = ", ".join(f"[`{name}`](#{self.anchors[name]})" for name in names)
            rows.append((f"[{path_of(module)}](#{self.anchors[f'{module}.py']})", links))
        return table(("Module", "Names"), rows)

    def add_heading(self, level: int, title: str, key: str) -> None:
        """Add a heading, and store its anchor under a key."""
        anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        same = [each for each in self.anchors.values() if re.fullmatch(rf"{anchor}(-\d+)?", each)]
        self.anchors[key] = f"{anchor}-{len(same)}" if same else anchor
        self.blocks.append(f"{'#' * level} {title}")

    def add_module(self, name: str, names: list[str]) -> None:
        """Add a module with its docstring and its public names."""
        module = self.package[name]
        self.add_heading(2, f"Module {path_of(name)}", f"{name}.py")
        self.blocks.append(f"Source: {source_link(module)}")
        self.blocks += paragraphs(docstring_of(module))
        for each in names:
            self.add_name(each, self.public[each])

    def add_name(self, name: str, target: Any) -> None:
        """Add a public name, or the private base class of one."""
        for base in private_bases(target):
            if base.name not in self.anchors:
                self.add_name(base.name, base)
        self.add_heading(3, name, name)
        kind = self.kind_of(target)
        if name not in self.public:
            kind = f"Not exported: the base of public classes. {kind}"
        self.blocks.append(f"{kind} in {source_link(target)}.")
        if target.is_class:
            self.add_class(target)
        elif target.is_function:
            self.add_function(target)
        else:
            self.blocks += [fence("py", target.source), *paragraphs(docstring_of(target))]
            self.collect_types(target.value)

    def kind_of(self, target: Any) -> str:
        """Return the kind of an object as the beginning of a sentence."""
        if target.is_function:
            return "Async function" if "async" in target.labels else "Function"
        if not target.is_class:
            return "Type alias" if is_type_alias(target) else "Constant"
        if form := form_of(target):
            return form
        kind = "Exception" if is_exception(target) else "Class"
        for decorator in target.decorators:
            if str(decorator.value).startswith("dataclass"):
                kind = "Frozen dataclass" if "frozen=True" in str(decorator.value) else "Dataclass"
        bases = [str(base) for base in target.bases]
        links = [
            f"[`{base}`](#{self.anchors[base]})" if base in self.anchors else f"`{base}`"
            for base in bases
            if base in self.anchors or "." in base or hasattr(builtins, base)
        ]
        return f"{kind}, a subclass of {' and '.join(links)}," if links else kind

    # ---- classes

    def add_class(self, target: Any) -> None:
        """Add the signature, the docstring, the attributes and the methods of a class."""
        parameters = constructor(target)
        if parameters:
            self.add_signature(target.name, parameters, None)
        self.add_sections(target, parameters)
        properties = [each for each in members_of(target) if each.is_attribute]
        rows = [self.attribute_row(each) for each in properties]
        self.add_table("Properties", ("Property", "Type", "Default", "Description"), rows)
        if found := [OPERATIONS[name] for name in OPERATIONS if name in target.members]:
            self.blocks.append(f"Supports {', '.join(found)}.")
        for method in members_of(target):
            if method.is_function:
                title = f"{target.name}.{method.name}"
                self.add_heading(4, title, title)
                self.add_function(method)

    def attribute_row(self, member: Any) -> tuple[str, ...]:
        """Return the table row of a field or a property from its own docstring."""
        self.collect_types(member.annotation)
        value = "" if member.value is None else code(default_of(member.value))
        return code(member.name), code(annotation_of(member)), value, description_of(member)

    # ---- functions

    def add_function(self, function: Any) -> None:
        """Add the signatures and the docstring of a function."""
        prefix = "async def" if "async" in function.labels else "def"
        if "classmethod" in function.labels or "staticmethod" in function.labels:
            self.blocks.append("This method is called on the class.")
        for each in function.overloads or [function]:
            parameters = [one for one in each.parameters if one.name not in ("self", "cls")]
            self.add_signature(f"{prefix} {function.name}", parameters, each.returns)
            self.collect_types(each.returns)
        self.add_sections(function, list(function.parameters))

    def add_signature(self, name: str, parameters: Sequence[Any], returns: Any) -> None:
        """Add a signature, and collect the type aliases in it."""
        self.blocks.append(fence("py", signature(name, parameters, returns)))
        for parameter in parameters:
            self.collect_types(parameter.annotation)

    # ---- docstrings

    def add_sections(self, target: Any, parameters: Sequence[Any]) -> None:
        """Add the sections of a docstring, and the fields of a class that it does not describe."""
        rows: list[tuple[str, ...]] = []
        described: set[str] = {each.name for each in parameters}
        after: list[str] = []
        for section in target.docstring.parsed if target.docstring else ():
            kind = section.kind.value
            if kind == "text":
                self.blocks += paragraphs(section.value)
            elif kind == "parameters":
                found = [self.documented_row(each, parameters, target) for each in section.value]
                self.add_table("Parameters", ("Parameter", "Type", "Default", "Description"), found)
            elif kind == "attributes":
                described |= {each.name for each in section.value}
                rows = [self.documented_row(each, parameters, target) for each in section.value]
            elif kind in ("returns", "yields"):
                text = " ".join(inline(each.description) for each in section.value)
                after.append(f"**{kind.title()}**: {text}")
            elif kind == "raises":
                found = [
                    (code(str(one.annotation)), inline(one.description)) for one in section.value
                ]
                after += ["**Raises**", table(("Exception", "When"), found)]
            else:
                raise ValueError(f"{target.path}: the reference has no form for {kind!r}.")
        fields = fields_of(target) if target.is_class else []
        rows += [self.attribute_row(each) for each in fields if each.name not in described]
        self.add_table("Attributes", ("Attribute", "Type", "Default", "Description"), rows)
        self.blocks += after

    def documented_row(
        self, documented: Any, parameters: Sequence[Any], target: Any
    ) -> tuple[str, ...]:
        """Return the table row of a parameter or an attribute that a docstring describes."""
        name = documented.name.lstrip("*")
        parameter = next((each for each in parameters if each.name == name), None)
        member = target.members.get(name) if target.is_class else None
        source = parameter or member
        kind = annotation_of(source) if source else ""
        value = getattr(parameter, "default", None)
        if parameter is None or parameter.kind.value.startswith("variadic"):
            value = None
        default = "" if value is None else code(default_of(value))
        return code(name), code(kind), default, inline(documented.description)

    def add_table(self, title: str, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
        """Add a table with a title, unless it is empty."""
        if rows:
            self.blocks += [f"**{title}**", table(header, rows)]

    # ---- type aliases

    def collect_types(self, expression: Any) -> None:
        """Collect the type aliases of an annotation that the package does not export."""
        if not isinstance(expression, griffe.Expr):
            return
        for name in expression.iterate(flat=True):
            found = resolve(name) if isinstance(name, griffe.ExprName) else None
            if found is None or found.name in self.public or found.name in self.types:
                continue
            if is_type_alias(found) and found.path.partition(".")[0] == self.package.name:
                self.types[found.name] = found
                self.collect_types(found.value)

    def add_types(self) -> None:
        """Add the collected type aliases."""
        if self.types:
            self.add_heading(2, "Types in signatures", "types in signatures")
            self.blocks.append("The signatures use these types. The package does not export them.")
        for name in sorted(self.types, key=str.lower):
            self.blocks.append(fence("py", self.types[name].source))
            self.blocks += paragraphs(docstring_of(self.types[name]))


# ---- objects


def public_names(package: Any) -> dict[str, Any]:
    """Return the objects that a package defines and exports."""
    return {
        name: package[module.removeprefix(f"{package.name}.")].members[name]
        for name, module in exported_names(package, package.name).items()
    }


def exported_names(package: Any, source: str) -> dict[str, str]:
    """Return the names that a package exports with `from module import Name`.

    Args:
        package: The package.
        source: The package of the modules.

    Returns:
        The module of each name.
    """
    tree = ast.parse(package.filepath.read_text(encoding="utf-8"))
    return {
        each.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        if node.module.partition(".")[0] == source
        for each in node.names
    }


def form_of(target: Any) -> str | None:
    """Return the special form of a class, or None."""
    names = {str(base).partition("[")[0] for base in target.bases}
    forms = {"Protocol": "Protocol", "TypedDict": "Typed dictionary", "NamedTuple": "Named tuple"}
    return next((form for name, form in forms.items() if name in names), None)


def constructor(target: Any) -> list[Any]:
    """Return the parameters of a class; empty if it has none or if a base class defines them."""
    form = form_of(target)
    if form == "Named tuple":
        kind = griffe.ParameterKind.positional_or_keyword
        return [
            griffe.Parameter(each.name, annotation=each.annotation, kind=kind, default=each.value)
            for each in fields_of(target)
        ]
    if form or not ("dataclass" in target.labels or "__init__" in target.members):
        return []
    return [each for each in target.parameters if each.name != "self" and each.name[0] != "_"]


def private_bases(target: Any) -> list[Any]:
    """Return the base classes that are not exported and have a public member."""
    bases = target.resolved_bases if target.is_class else []
    return [each for each in bases if each.name.startswith("_") and members_of(each)]


def members_of(target: Any) -> list[Any]:
    """Return the public methods and properties of a class."""
    return [
        each
        for name, each in target.members.items()
        if not name.startswith("_") and (each.is_function or "property" in each.labels)
    ]


def fields_of(target: Any) -> list[Any]:
    """Return the public attributes with an annotation in the body of a class."""
    init = target.members.get("__init__")
    first, last = (getattr(init, "lineno", 0) or 0), (getattr(init, "endlineno", 0) or 0)
    return [
        each
        for name, each in target.members.items()
        if each.is_attribute
        and each.annotation is not None
        and "property" not in each.labels
        and not name.startswith("_")
        and not first <= each.lineno <= last
    ]


def is_exception(target: Any) -> bool:
    """Return whether a class is an exception."""
    kinds = [getattr(builtins, str(base), None) for base in target.bases]
    return any(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds) or any(
        is_exception(base) for base in target.resolved_bases if base.is_class
    )


def is_type_alias(target: Any) -> bool:
    """Return whether a module-level name is a type."""
    if not (target.is_attribute and target.parent.is_module) or target.value is None:
        return False
    forms = ("Literal", "Callable", "Mapping", "Annotated", "Awaitable")
    return " | " in str(target.value) or str(target.value).startswith(forms)


def resolve(name: Any) -> Any:
    """Return the object of one of the packages that a name refers to, or None."""
    try:
        found = name.parent.modules_collection[name.canonical_path]
        return found.final_target if found.is_alias else found
    except (KeyError, AttributeError, griffe.AliasResolutionError, griffe.NameResolutionError):
        return None


def docstring_of(target: Any) -> str:
    """Return the docstring of an object, without its indentation."""
    return inspect.cleandoc(target.docstring.value) if target.docstring else ""


def description_of(member: Any) -> str:
    """Return the docstring of a field or a property as text in one line."""
    parts = []
    for section in member.docstring.parsed if member.docstring else ():
        if section.kind.value == "text":
            parts.append(inline(section.value))
        elif section.kind.value == "raises":
            errors = ((code(str(one.annotation)), inline(one.description)) for one in section.value)
            parts += [f"Raises {name}: {when}" for name, when in errors]
        else:
            raise ValueError(f"{member.path}: use text and 'Raises:' only.")
    return " ".join(parts)


# ---- text


def signature(name: str, parameters: Sequence[Any], returns: Any) -> str:
    """Return a signature, in one line if it is short."""
    parts = list(signature_parts(parameters))
    result = "" if returns is None else f" -> {plain(returns)}"
    line = f"{name}({', '.join(parts)}){result}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){result}"])


def signature_parts(parameters: Sequence[Any]) -> Iterator[str]:
    """Yield the parameters of a signature, with `/` and `*` between their kinds."""
    previous = None
    for parameter in parameters:
        kind = parameter.kind.value
        if previous == "positional-only" and kind != previous:
            yield "/"
        if kind == "keyword-only" and previous not in (kind, "variadic positional"):
            yield "*"
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        text = f"{stars}{parameter.name}"
        if parameter.annotation is not None:
            text += f": {annotation_of(parameter)}"
        if parameter.default is not None and not stars:
            text += f" = {default_of(parameter.default)}"
        yield text
        previous = kind
    if previous == "positional-only":
        yield "/"


def default_of(value: Any) -> str:
    """Return a default value; the name of a constant is replaced by its value."""
    if isinstance(value, griffe.ExprName):
        found = resolve(value)
        if found is not None and found.is_attribute and found.value is not None:
            return default_of(found.value)
    text = plain(value)
    if text.isdigit():
        return f"{int(text):_}"
    if text.startswith("(lambda"):
        return "…"
    return {"dict()": "{}", "list()": "[]"}.get(text, text)


def annotation_of(target: Any) -> str:
    """Return the type of a parameter or an attribute."""
    text = plain(target.annotation or "")
    return re.sub(r"^ClassVar\[(.*)\]$", r"\1", text)


def plain(expression: Any) -> str:
    """Return an expression with double quotes, as in the code of the project."""
    return re.sub(r"'([^'\"\\]*)'", r'"\1"', str(expression))


def path_of(module: str) -> str:
    """Return the path of a module within its package."""
    return module.replace(".", "/")


def source_link(target: Any) -> str:
    """Return a link to the file that defines an object."""
    path = target.filepath.relative_to(ROOT).as_posix()
    return f"[`{path}`](../../{path})"


def code(text: str) -> str:
    """Return a text as code; empty if it is empty."""
    return f"`{text}`" if text else ""


def fence(language: str, text: str) -> str:
    """Return a code block."""
    return f"```{language}\n{text.rstrip()}\n```"


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs and lists of a docstring; indented ones become text blocks."""
    blocks: list[str] = []
    for part in re.split(r"((?:^ {4}.*\n?|^\s*\n)+)", text, flags=re.MULTILINE):
        if part.startswith("    "):
            blocks.append(fence("text", textwrap.dedent(part)))
        elif re.match(r"\s*\n    ", part):
            blocks.append(fence("text", textwrap.dedent(part).strip("\n")))
        elif part.startswith("- "):
            items = re.split(r"^- ", part, flags=re.MULTILINE)[1:]
            blocks.append("\n".join(f"- {inline(each)}" for each in items))
        elif part.strip():
            blocks.append(inline(part))
    return blocks


def inline(text: str) -> str:
    """Return a text in one line; `<` is escaped outside code."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else part.replace("<", "\\<") for part in parts)


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table without its empty columns."""
    escaped = [tuple(cell.replace("|", "\\|") for cell in row) for row in rows]
    used = [at for at in range(len(header)) if any(row[at] for row in escaped)]
    lines = [header, tuple("---" for _ in header), *escaped]
    return "\n".join(f"| {' | '.join(line[at] for at in used)} |" for line in lines)


if __name__ == "__main__":
    main()
