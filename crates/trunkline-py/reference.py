#!/usr/bin/env python3
"""Generates docs/reference/python.md from the docstrings of the package and from its stubs.

    ./reference.py           writes the page
    ./reference.py --check   fails if that would change something

It reads the source only, so the package need not be built.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parent / "python" / "trunkline"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "python.md"
WIDTH = 116
"""Longest line of a signature."""

HEAD = """# Python

Everything that the package `trunkline` has, from its docstrings. [Use Trunkline from Python](../how-to/use-from-python.md)
shows how to use it. The package is typed: editors show the same text.

`trunkline.aio` has the same classes for `asyncio`, with the prefix `Async`; their methods that wait are coroutines, and
their iterators and context managers asynchronous ones. Its functions are `connect`, `writer`, `reader`,
`fan_out_writer` and `fan_in_reader`.

This page is written by `crates/trunkline-py/reference.py`.
"""

GROUPS = {
    "Connections and variables": ["Engine", "Variable", "Batch", "Lease", "Control"],
    "Updates": ["Monitor", "Callbacks"],
    "What calls return": [
        "Reading",
        "Handle",
        "Block",
        "Event",
        "Written",
        "Found",
        "Step",
        "Table",
        "Waveform",
        "VariableDefinition",
    ],
    "History, alarms and audit": [
        "History",
        "Series",
        "Alarm",
        "AlarmChange",
        "AuditEntry",
        "ControlEntry",
    ],
    "Streams": [
        "Writer",
        "Reader",
        "FanOutWriter",
        "FanInReader",
        "StreamProperties",
        "Peer",
        "Left",
        "Run",
        "Undelivered",
    ],
    "Recordings and TDMS files": [
        "Recorder",
        "RecorderStatus",
        "TdmsFile",
        "TdmsGroup",
        "TdmsChannel",
        "TdmsWriter",
    ],
    "I/O servers": ["IoServer", "Field", "ServedField", "Config"],
    "Errors": [],
}
"""The classes by the heading under which they stand. Errors are found by their module."""

MODULES = [
    "jupyter",
    "testing",
    "compat.epics",
    "compat.nptdms",
    "compat.ophyd",
    "io_servers.scpi",
    "io_servers.epics",
]
"""Modules of the package that programs import themselves."""


class Item(NamedTuple):
    """A function, property or attribute."""

    name: str
    signature: str
    doc: str


class Source:
    """The definitions of a module."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tree = ast.parse(path.read_text())
        self.doc = ast.get_docstring(self.tree) or ""
        self.exported: list[str] = []
        self.classes: dict[str, ast.ClassDef] = {}
        self.functions: dict[str, ast.FunctionDef] = {}
        self.imports: dict[str, tuple[Path, str]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] = node
            elif isinstance(node, ast.FunctionDef):
                self.functions[node.name] = node
            elif isinstance(node, ast.ImportFrom) and node.level:
                self._import(node)
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                self.exported = ast.literal_eval(node.value)

    def _import(self, node: ast.ImportFrom) -> None:
        folder = self.path.parent
        for _ in range(node.level - 1):
            folder = folder.parent
        if node.module is None:
            return
        place = folder.joinpath(*node.module.split("."))
        candidates = (place.with_suffix(".py"), place / "__init__.py", place.with_suffix(".pyi"))
        for path in candidates:
            if path.exists():
                for alias in node.names:
                    self.imports[alias.asname or alias.name] = (path, alias.name)
                return


class Sources:
    """All modules that were read, by their paths."""

    def __init__(self) -> None:
        self._read: dict[Path, Source] = {}

    def of(self, path: Path) -> Source:
        """Returns the definitions of a module."""
        if path not in self._read:
            self._read[path] = Source(path)
        return self._read[path]

    def find(self, source: Source, name: str) -> tuple[Source, ast.ClassDef | ast.FunctionDef] | None:
        """Returns a class or function by its name in a module, and the module that has it."""
        found = source.classes.get(name) or source.functions.get(name)
        if found is not None:
            return source, found
        if name in source.imports:
            path, original = source.imports[name]
            return self.find(self.of(path), original)
        return None

    def members(self, source: Source, of: ast.ClassDef) -> Iterator[Item]:
        """Yields what a class and its bases have, in the order of the source."""
        names: set[str] = set()
        for item in members_of(of):
            names.add(item.name)
            yield item
        for base in of.bases:
            found = self.find(source, ast.unparse(base).partition("[")[0])
            if found is not None and isinstance(found[1], ast.ClassDef):
                yield from (item for item in self.members(found[0], found[1]) if item.name not in names)


def members_of(of: ast.ClassDef) -> Iterator[Item]:
    """Yields the documented public attributes, properties and methods of a class."""
    for node in of.body:
        if isinstance(node, ast.FunctionDef):
            if node.name == "__init__":
                yield from attributes(node.body)
            decorators = [ast.unparse(one) for one in node.decorator_list]
            doc = ast.get_docstring(node)
            is_shown = doc is not None and not any(
                one == "overload" or one.endswith(".setter") for one in decorators
            )
            if is_shown and (not node.name.startswith("_") or node.name in ("__getitem__", "__iter__")):
                is_property = "property" in decorators
                yield Item(node.name, annotation(node) if is_property else signature(node), doc or "")
    yield from attributes(of.body)


def attributes(body: list[ast.stmt]) -> Iterator[Item]:
    """Yields assignments that have a docstring behind them, and annotated fields."""
    for index, node in enumerate(body):
        after = body[index + 1] if index + 1 < len(body) else None
        doc = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            doc = textwrap.dedent(str(after.value.value)).strip()
        target = None
        if isinstance(node, ast.AnnAssign):
            target, typed = node.target, f": {ast.unparse(node.annotation)}"
        elif isinstance(node, ast.Assign) and doc:
            target, typed = node.targets[0], ""
        if target is None:
            continue
        name = ast.unparse(target).removeprefix("self.")
        is_field = isinstance(target, ast.Name)
        if not name.startswith("_") and (doc or is_field):
            yield Item(name, name + typed, doc)


def annotation(node: ast.FunctionDef) -> str:
    """Returns a property with its type."""
    return node.name if node.returns is None else f"{node.name}: {ast.unparse(node.returns)}"


def signature(node: ast.FunctionDef, name: str | None = None) -> str:
    """Returns the signature of a function, in several lines if it is long."""
    arguments = node.args
    given = arguments.posonlyargs + arguments.args
    is_method = bool(given) and given[0].arg in ("self", "cls")
    defaults = [None] * (len(given) - len(arguments.defaults)) + list(arguments.defaults)
    parts = [part(one, default) for one, default in zip(given, defaults)][1 if is_method else 0 :]
    if arguments.vararg is not None:
        parts.append("*" + part(arguments.vararg, None))
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [part(one, default) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    if arguments.kwarg is not None:
        parts.append("**" + part(arguments.kwarg, None))
    returns = "" if node.returns is None or name else f" -> {ast.unparse(node.returns)}"
    line = f"{name or node.name}({', '.join(parts)}){returns}"
    if len(line) <= WIDTH:
        return line
    inner = "".join(f"    {one},\n" for one in parts)
    return f"{name or node.name}(\n{inner}){returns}"


def part(argument: ast.arg, default: ast.expr | None) -> str:
    """Returns a parameter with its type and default."""
    text = argument.arg
    if argument.annotation is not None:
        text += f": {ast.unparse(argument.annotation)}"
    if default is not None:
        text += f" = {ast.unparse(default)}" if argument.annotation else f"={ast.unparse(default)}"
    return text


def markdown(doc: str) -> str:
    """Converts a docstring: examples to blocks of code, `Args:` and the like to lists."""
    out: list[str] = []
    for paragraph in re.split(r"\n\s*\n", doc):
        lines = paragraph.split("\n")
        head = re.fullmatch(r"(Args|Returns|Raises|Attributes|Yields):(.*)", lines[0])
        if head is not None and len(lines) > 1:
            out.append(f"{head[1]}:\n\n" + "\n".join(bullets(lines[1:], head[1])))
        elif lines[0].startswith((" ", ">>>")):
            code = textwrap.dedent(paragraph)
            is_last_code = out and out[-1].startswith("```python")
            if is_last_code:
                out[-1] = out[-1].removesuffix("\n```") + f"\n\n{code}\n```"
            else:
                out.append(f"```python\n{code}\n```")
        else:
            out.append(paragraph)
    return "\n\n".join(out)


def bullets(lines: list[str], head: str) -> Iterator[str]:
    """Yields the entries of a section of a docstring as a list, or its text."""
    text = textwrap.dedent("\n".join(lines))
    if head in ("Returns", "Yields"):
        yield text
        return
    for line in text.split("\n"):
        entry = re.fullmatch(r"([\w*., ]+):\s*(.*)", line)
        if entry is not None and not line.startswith(" "):
            names = ", ".join(f"`{name.strip()}`" for name in entry[1].split(","))
            yield f"- {names}: {entry[2]}".rstrip()
        else:
            yield f"  {line.strip()}"


def short_items(items: list[Item]) -> Iterator[str]:
    """Yields items that need no heading as a list."""
    for item in items:
        text = " ".join(item.doc.split())
        yield f"- `{item.signature}`" + (f": {text}" if text else "")


def class_text(sources: Sources, source: Source, of: ast.ClassDef, name: str, level: str) -> Iterator[str]:
    """Yields the parts of the description of a class."""
    yield f"{level} `{name}`"
    bases = [ast.unparse(base) for base in of.bases]
    init = next((node for node in of.body if getattr(node, "name", "") == "__init__"), None)
    doc = ast.get_docstring(of) or ""
    is_made_by_programs = "Args:" in doc and "made by" not in doc
    if isinstance(init, ast.FunctionDef) and is_made_by_programs and name != "Engine":
        yield f"```python\n{signature(init, name)}\n```"
    if doc:
        yield markdown(doc.replace("Async", ""))
    if any(base.endswith(("Error", "Exception")) or base in ("Gap", "BadQuality") for base in bases):
        return
    items = [item for item in sources.members(source, of)]
    fields = [item for item in items if "(" not in item.signature.partition(":")[0]]
    if fields:
        yield "\n".join(short_items(fields))
    for item in items:
        if item not in fields:
            yield f"{level}# `{name}.{item.name}`"
            yield f"```python\n{item.signature}\n```"
            yield markdown(item.doc)


def page() -> str:
    """Returns the page."""
    sources = Sources()
    package = sources.of(PACKAGE / "__init__.py")
    out = [HEAD.rstrip(), "## Functions"]
    shown: set[str] = set()
    for name in package.exported:
        found = sources.find(package, name)
        if found is None and name in ("writer", "reader", "fan_out_writer", "fan_in_reader"):
            streams = sources.find(package, "Streams")
            assert streams is not None and isinstance(streams[1], ast.ClassDef)
            found_method = next(one for one in streams[1].body if getattr(one, "name", "") == name)
            assert isinstance(found_method, ast.FunctionDef)
            found = (streams[0], found_method)
        if found is not None and isinstance(found[1], ast.FunctionDef):
            shown.add(name)
            out.append(f"### `{name}`")
            line = signature(found[1])
            out.append(f"```python\n{line.replace(found[1].name, name, 1)}\n```")
            out.append(markdown(ast.get_docstring(found[1]) or ""))
    for heading, names in GROUPS.items():
        out.append(f"## {heading}")
        if heading == "Errors":
            names = list(sources.of(PACKAGE / "_errors.py").classes)
        for name in names:
            found = sources.find(package, name)
            if found is None or not isinstance(found[1], ast.ClassDef):
                sys.exit(f"reference.py: the package exports no class {name}")
            shown.add(name)
            out += class_text(sources, found[0], found[1], name, "###")
    missing = set(package.exported) - shown - {"aio"}
    if missing:
        sys.exit(f"reference.py: GROUPS does not have {', '.join(sorted(missing))}")
    out.append("## Modules")
    for name in MODULES:
        place = PACKAGE.joinpath(*name.split("."))
        path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        source = sources.of(path)
        out.append(f"### `trunkline.{name}`")
        out.append(markdown(source.doc))
        for exported in source.exported or [*source.classes, *source.functions]:
            found = sources.find(source, exported)
            if found is None or exported.startswith("_") or not ast.get_docstring(found[1]):
                continue
            if isinstance(found[1], ast.ClassDef):
                out += class_text(sources, found[0], found[1], exported, "####")
            else:
                out.append(f"#### `{exported}`")
                out.append(f"```python\n{signature(found[1])}\n```")
                out.append(markdown(ast.get_docstring(found[1]) or ""))
    return "\n\n".join(out) + "\n"


def main() -> int:
    text = page()
    if PAGE.exists() and PAGE.read_text() == text:
        return 0
    if sys.argv[1:] == ["--check"]:
        print(f"run crates/trunkline-py/reference.py; {PAGE.name} is not current")
        return 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
