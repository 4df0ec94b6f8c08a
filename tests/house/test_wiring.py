"""Nothing in the server is changed from outside: what a thing calls it is given when it is made."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.house.sources import ROOT, own_python, place, tree

SERVER = ROOT / "broker" / "server"
#: How places to call somebody begin: `on_closed`, `on_changed`.
PLACE_TO_CALL = "on_"
#: Ways to put something into a list or a table.
PUTS = {"append", "add", "extend", "insert", "update", "setdefault"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(module: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(module) if isinstance(node, Function))


def makes(call: ast.Call) -> bool:
    """Tell whether this may make something new: a function or a class is called, no method of something there."""
    function = call.func
    return isinstance(function, ast.Name) or (isinstance(function, ast.Attribute) and function.attr[0].isupper())


def own_names(function: Function) -> set[str]:
    """`self` and `cls`, and what the function made itself."""
    made = {"self", "cls"}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and makes(node.value):
            made |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return made


def targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return [
            each for target in node.targets for each in (target.elts if isinstance(target, ast.Tuple) else [target])
        ]
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in PUTS:
        attribute = node.func.value
        is_place = isinstance(attribute, ast.Attribute) and attribute.attr.startswith(PLACE_TO_CALL)
        return [attribute] if is_place else []
    return []


def is_foreign(target: ast.expr, own: set[str]) -> bool:
    """Tell whether this is an attribute of something that the function has not made, or an entry of one."""
    if isinstance(target, ast.Subscript):
        target = target.value
        if not isinstance(target, ast.Attribute):
            return False
    if not isinstance(target, ast.Attribute):
        return False
    return not (isinstance(target.value, ast.Name) and target.value.id in own)


def assignments(module: ast.Module) -> list[int]:
    """The lines of a module in which something foreign is assigned to."""
    found = set()
    for function in functions(module):
        own = own_names(function)
        for node in ast.walk(function):
            found |= {target.lineno for target in targets(node) if is_foreign(target, own)}
    return sorted(found)


def test_nothing_is_assigned_to_attributes_of_others() -> None:
    paths = [path for path in own_python() if path.is_relative_to(SERVER)]
    assert [place(path, line) for path in paths for line in assignments(tree(path))] == []


def test_every_way_to_wire_from_outside_is_seen() -> None:
    seen = """
def wire(server, state, send):
    server.check = 1
    state.engine.kick = 2
    send.instead[3] = 4
    server.on_closed.append(5)
    server.on_closed += (6,)
    state.total += 7
    server.times, server.places = 8, 9
"""
    assert assignments(ast.parse(seen)) == [3, 4, 5, 6, 7, 8, 9]


def test_what_is_one_s_own_may_be_assigned_to() -> None:
    own = """
class Server:
    def __init__(self):
        self.check = 1
        self.table[2] = 3
        self.closed.append(4)

def answer():
    made = Command()
    made.code = 5
    made.ext[6] = 7
    table = {}
    table[8] = 9
"""
    assert assignments(ast.parse(own)) == []
