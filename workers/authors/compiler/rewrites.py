"""Identities that hold for a whole pass: cheaper forms of functions that nothing else needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from workers.authors.compiler.algebra import scaled, simplified
from workers.authors.compiler.program import Program
from workers.authors.compiler.values import Pool, Value, ordered


def with_cheaper_tanh(program: Program) -> Program:
    """Write 1 + tanh(x) as 2 sigmoid(2x), and 1 - tanh(x)^2 by the same sigmoid, in passes that need no other tanh(x).

    The sigmoid takes one exponential and keeps its digits where tanh is near -1, as in GELU.
    """
    kept = [value for _, value in (*program.saved, *program.sums)]
    forward = _Rewriter(program.pool, [*(r.value for r in program.outputs), *kept]).done
    backward = _Rewriter(program.pool, [r.value for _, r in program.gradients]).done
    return replace(
        program,
        outputs=tuple(replace(result, value=forward[result.value]) for result in program.outputs),
        saved=tuple((key, forward[value]) for key, value in program.saved),
        sums=tuple((key, forward[value]) for key, value in program.sums),
        gradients=tuple((name, replace(r, value=backward[r.value])) for name, r in program.gradients),
    )


class _Rewriter:
    """Rebuilds the values of a pass; ``done`` gives the new form of each."""

    def __init__(self, pool: Pool, roots: list[Value]) -> None:
        self._pool = pool
        values = ordered(roots)
        self._replaced = _replaceable(values, roots)
        self.done: dict[Value, Value] = {}
        for value in values:
            self.done[value] = self._rebuilt(value)

    def _rebuilt(self, value: Value) -> Value:
        one_more, one_less = _one_plus_tanh(value), _one_minus_square(value)
        if one_more in self._replaced and one_more is not None:
            return scaled(self._pool, 2.0, self._sigmoid(one_more))
        if one_less in self._replaced and one_less is not None:
            sigmoid = self._sigmoid(one_less)
            rest = simplified(self._pool, "sub", self._pool.const(1.0), sigmoid)
            return scaled(self._pool, 4.0, simplified(self._pool, "mul", sigmoid, rest))
        args = tuple(self.done[arg] for arg in value.args)
        if all(new is old for new, old in zip(args, value.args, strict=True)):
            return value
        if value.datum is None and value.op != "cat":
            return simplified(self._pool, value.op, *args)
        return self._pool.value(value.op, args, value.datum, value.space, value.boolean)

    def _sigmoid(self, tanh: Value) -> Value:
        return simplified(self._pool, "sigmoid", scaled(self._pool, 2.0, self.done[tanh.args[0]]))


def _replaceable(values: list[Value], roots: Iterable[Value]) -> set[Value]:
    """Give every tanh whose users are all of the two forms."""
    users: dict[Value, list[Value]] = {value: [] for value in values}
    for value in values:
        for arg in value.args:
            users[arg].append(value)
    stored = set(roots)
    return {
        value
        for value in values
        if value.op == "tanh"
        and value not in stored
        and all(_fits(user, value, users, stored) for user in users[value])
    }


def _fits(user: Value, tanh: Value, users: dict[Value, list[Value]], stored: set[Value]) -> bool:
    if _one_plus_tanh(user) is tanh:
        return True
    squares = user.op == "mul" and user.args == (tanh, tanh) and user not in stored
    return squares and all(_one_minus_square(other) is tanh for other in users[user])


def _one_plus_tanh(value: Value) -> Value | None:
    if value.op != "add" or 1 not in [arg.number for arg in value.args]:
        return None
    return next((arg for arg in value.args if arg.op == "tanh"), None)


def _one_minus_square(value: Value) -> Value | None:
    if value.op != "sub" or value.args[0].number != 1 or value.args[1].op != "mul":
        return None
    one, other = value.args[1].args
    return one if one is other and one.op == "tanh" else None
