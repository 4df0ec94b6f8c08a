"""Reading a filter expression.

    or          = and { OR and }
    and         = equality { AND equality }
    equality    = comparison { "=" comparison | "<>" comparison | IS NULL | IS NOT NULL }
    comparison  = unary { ( ">" | ">=" | "<" | "<=" ) unary
                        | [ NOT ] BETWEEN unary AND unary
                        | [ NOT ] IN "(" string { "," string } ")"
                        | [ NOT ] ( CONTAINS | STARTSWITH | ENDSWITH ) string }
    unary       = ( "+" | "-" | NOT ) unary | string | number | TRUE | FALSE | NULL | name | "(" or ")"

So NOT binds tighter than a comparison: NOT a = 'x' asks whether (NOT a) is 'x', as in RocketMQ; write NOT (a = 'x').
"""

from __future__ import annotations

from . import nodes
from .nodes import Node
from .tokens import END, FLOAT, NAME, STRING, WHOLE, BadExpression, Token, tokens

MOST_NESTED = 100
_ORDERS = frozenset({"<", "<=", ">", ">="})
_TEXT_WORDS = frozenset({"CONTAINS", "STARTSWITH", "ENDSWITH"})
_WORDS = _TEXT_WORDS | {"NOT", "BETWEEN", "IN"}


def parse(expression: str) -> Node:
    """Return the condition that an expression says. Raises BadExpression."""
    reader = _Reader(tokens(expression))
    node = nodes.as_truth(reader.alternatives())
    reader.take(END)
    return node


class _Reader:
    def __init__(self, words: list[Token]) -> None:
        self._words = words
        self._at = 0
        self._depth = 0

    @property
    def _kind(self) -> str:
        return self._words[self._at].kind

    def take(self, kind: str) -> Token:
        """The next word, which must be of this kind."""
        token = self._words[self._at]
        if token.kind != kind:
            found = f"{token.text[:40]!r}" if token.kind != END else END
            raise BadExpression(f"{kind} is expected at character {token.at + 1}, not {found}.")
        self._at += 1
        return token

    def _accept(self, kind: str) -> bool:
        if self._kind != kind:
            return False
        self._at += 1
        return True

    def alternatives(self) -> Node:
        """Parse the rule `or` of the grammar."""
        parts = [self._conjunction()]
        while self._accept("OR"):
            parts.append(self._conjunction())
        return nodes.any_of(parts)

    def _conjunction(self) -> Node:
        parts = [self._equality()]
        while self._accept("AND"):
            parts.append(self._equality())
        return nodes.all_of(parts)

    def _equality(self) -> Node:
        left = self._comparison()
        for _ in range(MOST_NESTED):
            if self._accept("="):
                left = nodes.equal(left, self._comparison())
            elif self._accept("<>"):
                left = nodes.negation(nodes.equal(left, self._comparison()))
            elif self._accept("IS"):
                is_not = self._accept("NOT")
                self.take("NULL")
                left = nodes.is_null(left)
                left = nodes.negation(left) if is_not else left
            else:
                return left
        raise _too_deep()

    def _comparison(self) -> Node:
        left = self._unary()
        for _ in range(MOST_NESTED):
            if self._kind in _ORDERS:
                sign = self.take(self._kind).kind
                left = nodes.ordered(left, sign, self._unary())
            elif self._kind in _WORDS:
                left = self._word_test(left, is_not=self._accept("NOT"))
            else:
                return left
        raise _too_deep()

    def _word_test(self, left: Node, *, is_not: bool) -> Node:
        if self._accept("BETWEEN"):
            low = self._unary()
            self.take("AND")
            return (nodes.not_between if is_not else nodes.between)(left, low, self._unary())
        if self._accept("IN"):
            return nodes.one_of(left, self._strings(), is_not=is_not)
        if self._kind in _TEXT_WORDS:
            word = self.take(self._kind).kind
            return nodes.text_test(left, word, self.take(STRING).text, is_not=is_not)
        self.take("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
        raise AssertionError("no word is of that kind")

    def _strings(self) -> list[str]:
        self.take("(")
        found = [self.take(STRING).text]
        while self._accept(","):
            found.append(self.take(STRING).text)
        self.take(")")
        return found

    def _unary(self) -> Node:
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise _too_deep()
        try:
            if self._accept("+"):
                return self._unary()
            if self._accept("-"):
                return nodes.minus(self._unary())
            if self._accept("NOT"):
                return nodes.negation(self._unary())
            return self._primary()
        finally:
            self._depth -= 1

    def _primary(self) -> Node:
        token = self._words[self._at]
        self._at += 1
        match token.kind:
            case "(":
                node = self.alternatives()
                self.take(")")
                return node
            case "TRUE" | "FALSE":
                return nodes.truth_constant(token.kind == "TRUE")
            case "NULL":
                return nodes.truth_constant(None)
            case kind if kind == STRING:
                return nodes.constant(token.text)
            case kind if kind == WHOLE:
                return nodes.whole_number(token.text)
            case kind if kind == FLOAT:
                return nodes.floating_number(token.text)
            case kind if kind == NAME:
                return nodes.property_named(token.text)
        self._at -= 1
        self.take("A value, a name or (")
        raise AssertionError("no word is of that kind")


def _too_deep() -> BadExpression:
    return BadExpression(f"The expression is nested more than {MOST_NESTED} deep.")
