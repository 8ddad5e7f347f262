"""Byte machines with subroutines, run as a finite automaton that is built where it is walked.

A `Program` is a non-deterministic machine over bytes whose parts call one another (a value inside an array
inside an object). `Automaton` turns sets of its threads into numbered states on demand and knows of each state
the least number of bytes that ends the text: a budget needs it, and no search for it is ever made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any

import numpy as np

_BYTE, _SPLIT, _CALL, _RETURN = range(4)
INFINITE = 1 << 30
"""Cost of what can never be ended."""
ALL_BYTES = (1 << 256) - 1


class Program:
    """Instructions, built backwards: each method takes the place to go on at and returns the place to start at.

    Places are integers. `DONE` ends a subroutine, or the whole text at the outermost level; `DEAD` admits nothing.
    """

    DONE = 0
    DEAD = 1

    def __init__(self):
        self.kind = [_RETURN, _SPLIT]
        self.first: list[Any] = [0, ()]  # a byte set, places or a subroutine
        self.second = [0, 0]
        self.cost = [0, INFINITE]
        """Least bytes from a place to the end of its subroutine."""
        self.marked: set[int] = set()
        """Places that a marked call comes back to; states inside such a call are marked."""

    def _add(self, kind: int, first: int | tuple[int, ...], second: int, cost: int) -> int:
        self.kind.append(kind)
        self.first.append(first)
        self.second.append(second)
        self.cost.append(min(cost, INFINITE))
        return len(self.kind) - 1

    def byte(self, accepted: int, then: int) -> int:
        """One byte of the set `accepted` (bit i admits byte i)."""
        return self._add(_BYTE, accepted, then, 1 + self.cost[then]) if accepted else self.DEAD

    def literal(self, text: bytes, then: int) -> int:
        for b in reversed(text):
            then = self.byte(1 << b, then)
        return then

    def split(self, places: Iterable[int]) -> int:
        """Any of `places`."""
        live = tuple(dict.fromkeys(p for p in places if p != self.DEAD))
        if len(live) < 2:
            return live[0] if live else self.DEAD
        return self._add(_SPLIT, live, 0, min(self.cost[p] for p in live))

    def call(self, sub: int, then: int, mark: bool = False) -> int:
        """A subroutine; `mark` marks the states inside it."""
        place = self._add(_CALL, sub, then, self.cost[sub] + self.cost[then])
        if mark:
            self.marked.add(then)
        return place

    def loop(self, build: Callable[[int], Iterable[int]]) -> int:
        """A place that may come back to itself: `build` takes it and returns the alternatives there."""
        place = self._add(_SPLIT, (), 0, INFINITE)
        first = place + 1
        live = tuple(dict.fromkeys(p for p in build(place) if p not in (self.DEAD, place)))
        self.first[place] = live
        self._settle(range(first, len(self.kind)), place)
        return place

    def graph(
        self, start: Hashable, edges: Callable[[Hashable], tuple[bool, Sequence[tuple[int, Hashable]]]],
        limit: int, then: int,
    ) -> int | None:  # fmt: skip
        """A deterministic graph: `edges(node)` is whether it may end there, and (subroutine of a label, node) pairs.

        None when it has more than `limit` nodes.
        """
        places = {start: self._add(_SPLIT, (), 0, INFINITE)}
        queue, heap, calls = [start], [], []
        before: dict[int, list[tuple[int, int]]] = {}
        for node in queue:
            ends, out = edges(node)
            alternatives = [then] if ends else []
            if ends:
                heappush(heap, (self.cost[then], places[node]))
            for sub, target in out:
                if target not in places:
                    if len(places) >= limit:
                        return None
                    places[target] = self._add(_SPLIT, (), 0, INFINITE)
                    queue.append(target)
                alternatives.append(self._add(_CALL, sub, places[target], INFINITE))
                before.setdefault(places[target], []).append((places[node], self.cost[sub]))
            calls += alternatives[bool(ends) :]
            self.first[places[node]] = tuple(alternatives)
        while heap:  # Dijkstra, from the ends back
            cost, place = heappop(heap)
            if cost < self.cost[place]:
                self.cost[place] = cost
                for source, label in before.get(place, ()):
                    heappush(heap, (cost + label, source))
        for call in calls:
            self.cost[call] = self._least(call)
        return places[start]

    def _settle(self, body: range, head: int) -> None:
        # Costs in a loop: relax until nothing changes. Built backwards, so in one direction once or twice is enough.
        changed = True
        while changed:
            changed = False
            for p in (*body, head):
                cost = self._least(p)
                if cost < self.cost[p]:
                    self.cost[p] = cost
                    changed = True

    def _least(self, place: int) -> int:
        kind, first = self.kind[place], self.first[place]
        if kind == _SPLIT:
            return min((self.cost[p] for p in first), default=INFINITE)
        if kind == _CALL:
            return min(self.cost[first] + self.cost[self.second[place]], INFINITE)
        return 0 if kind == _RETURN else min(1 + self.cost[self.second[place]], INFINITE)

    def accepts(self, start: int, text: bytes) -> bool:
        """Whether `text` is in the language of the subroutine `start`."""
        automaton = Automaton(self, start)
        return automaton.accepting(automaton.run(automaton.start, text))


class Automaton:
    """The states of a program, numbered as they are met. State 0 is the dead one."""

    DEAD = 0

    def __init__(self, program: Program, start: int):
        self.program = program
        # Of a stack: place to return to, stack below, cost of both, whether it is in a marked call.
        self._stacks: list[tuple[int, int, int, bool]] = [(0, 0, 0, False)]
        self._stack_ids: dict[tuple[int, int], int] = {}
        self._threads: list[tuple[tuple[int, int], ...]] = [()]
        self._ids: dict[tuple[tuple[int, int], ...], int] = {(): 0}
        self._ends: list[bool] = [False]
        self._parts: list[list[tuple[int, int]] | None] = [[]]
        self.marked: list[bool] = [False]
        """Whether a state is inside a marked call."""
        self.costs = np.full(64, INFINITE, np.int32)
        """Least bytes from a state to the end of the text, [states or more]."""
        self.rows = np.zeros((64, 256), np.int32)
        """Where each byte leads from an expanded state, [states or more, 256]."""
        self.expanded = np.zeros(64, bool)
        self.expanded[0] = True
        self.start = self._state([(start, 0)])

    def __len__(self) -> int:
        return len(self._threads)

    def accepting(self, state: int) -> bool:
        """Whether the text may end here."""
        return self._ends[state]

    def cost(self, state: int) -> int:
        return int(self.costs[state])

    def step(self, state: int, byte: int) -> int:
        for accepted, target in self._parts[state] or self.expand(state):
            if accepted >> byte & 1:
                return target
        return 0

    def run(self, state: int, text: bytes) -> int:
        for b in text:
            state = self.step(state, b)
            if not state:
                break
        return state

    def only_byte(self, state: int) -> int | None:
        """The byte that must come next, None if there is a choice (to end is one)."""
        parts = self._parts[state] or self.expand(state)
        if len(parts) != 1 or self._ends[state]:
            return None
        accepted = parts[0][0]
        return None if accepted & (accepted - 1) else accepted.bit_length() - 1

    def stuck(self, state: int) -> bool:
        """Whether no byte may follow."""
        return not (self._parts[state] or self.expand(state))

    def expand(self, state: int) -> list[tuple[int, int]]:
        """Work out where every byte leads: disjoint (byte set, target) pairs."""
        known = self._parts[state]
        if known is not None:
            return known
        program = self.program
        groups: list[tuple[int, list[tuple[int, int]]]] = []
        for place, stack in self._threads[state]:
            accepted: int = program.first[place]
            target = (program.second[place], stack)
            divided = []
            for mask, targets in groups:
                common = mask & accepted
                if common:
                    divided.append((common, [*targets, target]))
                    accepted &= ~common
                    mask &= ~common
                if mask:
                    divided.append((mask, targets))
            if accepted:
                divided.append((accepted, [target]))
            groups = divided
        parts = []
        for mask, targets in groups:
            to = self._state(targets)
            if to:
                parts.append((mask, to))
                self.rows[state, members(mask)] = to
        self._parts[state] = parts
        self.expanded[state] = True
        return parts

    def _state(self, starts: list[tuple[int, int]]) -> int:
        program, kind = self.program, self.program.kind
        seen: set[tuple[int, int]] = set()
        threads: list[tuple[int, int]] = []
        ends = False
        least = INFINITE
        todo = list(starts)
        while todo:
            thread = todo.pop()
            if thread in seen:
                continue
            seen.add(thread)
            place, stack = thread
            below = self._stacks[stack][2]
            cost = program.cost[place] + below
            if cost >= INFINITE:
                continue  # it can never be ended
            what = kind[place]
            if what == _BYTE:
                threads.append(thread)
                least = min(least, cost)
            elif what == _SPLIT:
                todo += [(p, stack) for p in program.first[place]]
            elif what == _CALL:
                todo.append((program.first[place], self._push(program.second[place], stack)))
            elif stack:
                todo.append(self._stacks[stack][:2])
            else:
                ends, least = True, 0
        key = (*sorted(threads), *(((-1, 0),) if ends else ()))
        known = self._ids.get(key)
        if known is not None:
            return known
        state = len(self._threads)
        if state == len(self.costs):
            self.costs = np.concatenate([self.costs, np.full(state, INFINITE, np.int32)])
            self.rows = np.concatenate([self.rows, np.zeros_like(self.rows)])
            self.expanded = np.concatenate([self.expanded, np.zeros_like(self.expanded)])
        self._ids[key] = state
        self._threads.append(tuple(threads))
        self._ends.append(ends)
        self._parts.append(None)
        self.marked.append(any(self._stacks[s][3] for _, s in threads))
        self.costs[state] = least
        return state

    def _push(self, back: int, stack: int) -> int:
        if self.program.kind[back] == _RETURN and back not in self.program.marked:
            return stack  # a call at the end of a subroutine needs no way back
        key = (back, stack)
        known = self._stack_ids.get(key)
        if known is None:
            known = self._stack_ids[key] = len(self._stacks)
            _, _, cost, marked = self._stacks[stack]
            marked = marked or back in self.program.marked
            self._stacks.append((back, stack, self.program.cost[back] + cost, marked))
        return known

    def shortest(self, state: int) -> bytes:
        """A shortest text that ends what stands in `state`."""
        program = self.program
        if self._ends[state] or not state:
            return b""
        place, stack = min(self._threads[state], key=lambda t: program.cost[t[0]] + self._stacks[t[1]][2])
        text = bytearray()
        while True:
            what = program.kind[place]
            if what == _BYTE:
                text.append(_plainest(program.first[place]))
                place = program.second[place]
            elif what == _SPLIT:
                place = min(program.first[place], key=program.cost.__getitem__)
            elif what == _CALL:
                stack = self._push(program.second[place], stack)
                place = program.first[place]
            elif stack:
                place, stack = self._stacks[stack][:2]
            else:
                return bytes(text)


@lru_cache(maxsize=4096)
def members(mask: int) -> np.ndarray:
    """The bytes of a set, ascending."""
    bits = np.unpackbits(np.frombuffer(mask.to_bytes(32, "little"), np.uint8), bitorder="little")
    return np.flatnonzero(bits)


def byte_set(low: int, high: int) -> int:
    """The set of the bytes from `low` to `high`, both included."""
    return (1 << high + 1) - (1 << low)


def _plainest(mask: int) -> int:
    """The most ordinary byte of a set: what fills up a string that must have a length."""
    for b in b"a0A":
        if mask >> b & 1:
            return b
    return (mask & -mask).bit_length() - 1
