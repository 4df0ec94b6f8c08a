"""Write the synchronous faces of the asynchronous clients; `make format` does it.

A face has the public methods of its core, with the core's signatures and docstrings:

    property that is a part          is the face of that part (a core that belongs to another: Plan with base Part)
    async method                      runs in the event loop's thread; where it has a `timeout_ms`, the caller gets
                                      Timeout even if that thread is too busy to keep it
    plain method that returns None    runs there too: it changes what belongs to that thread
    other plain method, property      is called where the face is

What a face does beyond that (start and stop, forks) is written by hand in its base class, in _event_loop.py and
_faces.py; a method that the base has is not generated. Two marks on a method of the core say more: `plain_send` and
`unhurried` (_event_loop.py). A parameter of a constructor with a leading underscore is the core's own.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
MARKS = {"plain_send", "unhurried"}

Method = ast.FunctionDef | ast.AsyncFunctionDef


class Plan(NamedTuple):
    """A face to generate: its name, the module of its core, and the hand-written base, as module and class.

    `over`: the face that it extends, as its core extends the core of that one; its block starts it.
    """

    name: str
    core: str
    base: tuple[str, str] = ("_event_loop", "Face")
    home: str = "_sync_clients"
    over: str = ""

    @property
    def core_class(self) -> str:
        """The asynchronous class that the face stands before."""
        return f"Async{self.name}"

    @property
    def path(self) -> Path:
        """The file that holds the face."""
        return HERE / f"{self.home}.py"


PLANS = (
    Plan("Admin", "_admin", home="_sync_admin"),
    Plan("Timers", "_timers", ("_event_loop", "Part")),
    Plan("Producer", "_producer"),
    Plan("TransactionProducer", "_transaction_producer", over="Producer"),
    Plan("SimpleConsumer", "_simple"),
    Plan("Consumer", "_consumer", ("_faces", "ConsumerFace")),
    Plan("LitePullConsumer", "_lite_pull", ("_faces", "LitePullFace")),
)


class Source:
    """A module of the client as it is written: its classes, and the imports that its names come from."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.classes: dict[str, ast.ClassDef] = {}
        #: name -> the import that brings it into another module of the client
        self.imports: dict[str, str] = {}
        for node in ast.parse(text).body:
            if isinstance(node, ast.ImportFrom):
                source = "." * node.level + (node.module or "")
                for alias in node.names:
                    renamed = f" as {alias.asname}" if alias.asname else ""
                    self.imports[alias.asname or alias.name] = f"from {source} import {alias.name}{renamed}"
            elif isinstance(node, ast.Import):
                self.imports |= {alias.name: f"import {alias.name}" for alias in node.names}
            else:
                for defined in _defined_by(node):
                    self.imports[defined] = f"from .{name} import {defined}"
                if isinstance(node, ast.ClassDef):
                    self.classes[node.name] = node

    def lineage(self, name: str) -> Iterator[tuple[Source, ast.ClassDef]]:
        """Yield a class and its bases in the client, nearest first; nothing behind another face or its core."""
        found = self.classes[name]
        yield self, found
        for base in found.bases:
            named = base.value if isinstance(base, ast.Subscript) else base
            home = re.fullmatch(r"from \.(\w+) import (\w+)", self.imports.get(ast.unparse(named), ""))
            if home is not None and home[2] not in STOPS:
                yield from source(home[1]).lineage(home[2])


#: Bases that are written for any core.
GENERIC = {"Face", "Part"}
#: What a core gives as a part of itself, its face gives as the face of that part.
PARTS = {plan.core_class: plan.name for plan in PLANS if plan.base[1] == "Part"}
#: A face that stands on another one has what that one has.
STOPS = {plan.core_class for plan in PLANS}


@cache
def source(name: str) -> Source:
    """Return a module of the client by its name."""
    return Source(name, (HERE / f"{name}.py").read_text())


def _defined_by(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [name.id for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return []


HEAD = """\
\"\"\"The synchronous faces {names}.\"\"\"

# Generated by _make_faces.py; do not edit: change the core, then run `make format`.

from __future__ import annotations

{imports}

_run = event_loop_thread.run
"""

OVER = """\
    @property
    def _core(self) -> {core}:
        return cast({core}, super()._core)

    @property
    def core(self) -> {core}:
        \"\"\"The asynchronous client behind this face.\"\"\"
        return self._core

    def __enter__(self) -> Self:
        self.start()
        return self
"""


class Face:
    """The text of one face while it is written, and the imports that it needs."""

    def __init__(self, plan: Plan, core: Source | None = None) -> None:
        """`core`: the module of the core, if it is not the one that is in its file."""
        self.plan = plan
        self.core = core or source(plan.core)
        module, base = plan.base
        self.imports = {
            f"from .{plan.core} import {plan.core_class}",
            f"from .{module} import {base}",
            "from ._event_loop import event_loop_thread",
        }

    def text(self) -> str:
        """Write the class; `imports` is complete afterwards."""
        plan = self.plan
        base = plan.over or (f"{plan.base[1]}[{plan.core_class}]" if plan.base[1] in GENERIC else plan.base[1])
        document = _document(self.core.classes[plan.core_class], "    ")
        return "\n".join([f"class {plan.name}({base}):", document, *self._members()])

    def _members(self) -> Iterator[str]:
        written = set(_names_of(*self.plan.base))
        if self.plan.over:
            over = next(plan for plan in PLANS if plan.name == self.plan.over)
            written.update(_names_of(over.core, over.core_class))
        core = list(self.core.lineage(self.plan.core_class))
        if self.plan.base[1] != "Part":
            yield self._constructor(
                *next((home, each) for home, kind in core for each in _methods(kind) if each.name == "__init__")
            )
        if self.plan.over:
            self.imports.add("from typing import Self, cast")
            yield OVER.format(core=self.plan.core_class)
        for home, kind in core:
            for member, document in zip(kind.body, [*kind.body[1:], None], strict=True):
                name = _name_of(member)
                if name is None or name.startswith("_") or name in written:
                    continue
                written.add(name)
                if isinstance(member, ast.AnnAssign):
                    yield self._attribute(home, name, member, document)
                elif isinstance(member, Method):
                    yield self._method(home, member)

    def _constructor(self, home: Source, made: Method) -> str:
        kept = [
            each
            for each in zip(made.args.kwonlyargs, made.args.kw_defaults, strict=True)
            if not each[0].arg.startswith("_")
        ]
        made.args.kwonlyargs, made.args.kw_defaults = [each for each, _ in kept], [each for _, each in kept]
        base = "Face.__init__(self, " if self.plan.over else "super().__init__("
        call = f"{base}lambda: {self.plan.core_class}({_handed_on(made.args)}))"
        document = f"{_document(made, ' ' * 8)}\n" if ast.get_docstring(made) else ""
        return f"    {self._signature(home, made)}\n{document}        {call}\n"

    def _attribute(self, home: Source, name: str, member: ast.AnnAssign, document: ast.stmt | None) -> str:
        """Return a field that the core has as long as it lives; its docstring stands below it."""
        if not (isinstance(document, ast.Expr) and isinstance(document.value, ast.Constant)):
            raise SystemExit(f"{self.plan.core_class}.{name} is public and has no docstring.")
        self._need(home, member.annotation)
        said = _quoted(str(document.value.value), " " * 8)
        kind = ast.unparse(member.annotation)
        return f"    @property\n    def {name}(self) -> {kind}:\n{said}\n        return self._core.{name}\n"

    def _method(self, home: Source, method: Method) -> str:
        decorators = {ast.unparse(each) for each in method.decorator_list}
        if unknown := decorators - MARKS - {"property"}:
            raise SystemExit(f"No face is known for {self.plan.core_class}.{method.name}, which is {unknown}.")
        lines = [_document(method, " " * 8)]
        if "plain_send" in decorators:
            self.imports.add("from ._transaction import check_plain_send")
            lines.append("        check_plain_send()")
        returns = ast.unparse(method.returns) if method.returns is not None else "None"
        keyword = "" if returns == "None" else "return "
        if "property" in decorators and (part := PARTS.get(returns)) is not None:
            made = f"return {part}(lambda: self._core.{method.name})"
            return "\n".join(["    @property", f"    def {method.name}(self) -> {part}:", *lines, f"        {made}\n"])
        if "property" in decorators:
            return "\n".join(
                [
                    "    @property",
                    f"    {self._signature(home, method)}",
                    *lines,
                    f"        return self._core.{method.name}\n",
                ]
            )
        handed_on = _handed_on(method.args)
        work = f"self._core.{method.name}({handed_on})"
        if isinstance(method, ast.AsyncFunctionDef):
            is_timed = "timeout_ms" in _parameters(method.args) and "unhurried" not in decorators
            work = f"_run({work}{', timeout_ms=timeout_ms' if is_timed else ''})"
        elif not keyword:
            self.imports.add("from ._event_loop import call")
            work = f"_run(call({', '.join(filter(None, [f'self._core.{method.name}', handed_on]))}))"
        return "\n".join([f"    {self._signature(home, method)}", *lines, f"        {keyword}{work}\n"])

    def _signature(self, home: Source, method: Method) -> str:
        self._need(home, method.args)
        returns = ast.unparse(method.returns) if method.returns is not None else "None"
        if method.returns is not None:
            self._need(home, method.returns)
        return f"def {method.name}({ast.unparse(method.args)}) -> {returns}:"

    def _need(self, home: Source, node: ast.AST) -> None:
        """Import what an annotation or a default names."""
        named = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        self.imports |= {home.imports[name] for name in named if name in home.imports}


def _name_of(member: ast.stmt) -> str | None:
    if isinstance(member, Method):
        return None if any(ast.unparse(each) == "abstractmethod" for each in member.decorator_list) else member.name
    if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
        return member.target.id
    return None


def _names_of(module: str, name: str) -> Iterator[str]:
    """Yield the names of all methods that a class has."""
    for _, kind in source(module).lineage(name):
        yield from filter(None, map(_name_of, kind.body))


def _methods(kind: ast.ClassDef) -> list[Method]:
    return [each for each in kind.body if isinstance(each, Method)]


def _parameters(given: ast.arguments) -> list[str]:
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _handed_on(given: ast.arguments) -> str:
    """Return a method's parameters as arguments of the core's method of the same name."""
    parts = [each.arg for each in (*given.posonlyargs, *given.args)][1:]
    parts += [f"*{given.vararg.arg}"] if given.vararg else []
    parts += [f"{each.arg}={each.arg}" for each in given.kwonlyargs]
    parts += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return ", ".join(parts)


def _document(node: Method | ast.ClassDef, indent: str) -> str:
    said = ast.get_docstring(node)
    if said is None:
        raise SystemExit(f"{node.name} is public and has no docstring.")
    return _quoted(said, indent)


def _quoted(said: str, indent: str) -> str:
    """A docstring as synchronous programs read it."""
    said = re.sub(r"\bAsync(?=[A-Z])", "", inspect.cleandoc(said))
    said = re.sub(r"\basync (?=with|for|def)|\bawait ", "", said).replace("\\", "\\\\")
    lines = [f"{indent}{line}".rstrip() for line in said.splitlines()]
    text = "\n".join(lines).removeprefix(indent)
    return f'{indent}"""{text}' + (f'\n{indent}"""' if "" in lines else '"""')


def formatted(path: Path, text: str) -> str:
    """Return the text in the form that `make format` leaves it in."""
    for command in (["check", "--quiet", "--fix", "--select", "F401,I"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"]
        text = subprocess.run(ruff, input=text, capture_output=True, check=True, text=True).stdout
    return text


def faces() -> dict[Path, str]:
    """Return every generated file, and what it is to hold, in the form that `make format` leaves it in."""
    return {path: _module(path, [plan for plan in PLANS if plan.path == path]) for path in {p.path: p for p in PLANS}}


def _module(path: Path, plans: list[Plan]) -> str:
    written = [Face(plan) for plan in plans]
    texts = [face.text() for face in written]
    imports = sorted(set[str]().union(*(face.imports for face in written)))
    head = HEAD.format(names=", ".join(plan.name for plan in plans), imports="\n".join(imports))
    return formatted(path, "\n\n".join([head, *texts]))


if __name__ == "__main__":
    for path, text in faces().items():
        path.write_text(text)
