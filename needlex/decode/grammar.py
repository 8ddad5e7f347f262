"""Answers that cannot be wrong in form: the tools' grammar, and a matcher that follows one answer token by token.

Whatever a model prefers, what it writes under a `Matcher` parses, names a tool, validates against that tool's
parameters and ends within its budget of tokens. What the model would have written anyway, if it is valid, stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from needlex.data.tokenizer import EOS, Tokenizer
from needlex.decode.answer_schema import AnswerMachine
from needlex.decode.keys import Keys
from needlex.decode.machine import Automaton
from needlex.decode.vocabulary import FIRST_TEXT, vocabulary
from needlex.schema import Tool


class _Choices(NamedTuple):
    """What may come next in a state."""

    ids: np.ndarray
    group: np.ndarray  # for each id, its place in `targets`
    targets: list[int]
    bits: np.ndarray  # int32 words; the end is among them where it may come
    worst: int  # most bytes that any target needs


class Grammar:
    """The language of all answers to a set of tools, compiled for a tokenizer.

    States are worked out where answers go and are remembered, so a grammar that serves many rows gets faster.
    It is not to be used by several threads at once.
    """

    def __init__(self, tools: Sequence[Tool], tokenizer: Tokenizer, max_calls: int | None = None):
        """See `compile_grammar`."""
        self.vocabulary = vocabulary(tokenizer)
        machine = AnswerMachine(tools, max_calls)
        start = machine.start
        if tokenizer.dummy_prefix:  # such a tokenizer begins every text with a space
            start = machine.program.literal(b" ", start)
        self._lead = b" " if tokenizer.dummy_prefix else b""
        self.free_keys = machine.open
        """Whether there are objects whose keys no schema names."""
        self.automaton = Automaton(machine.program, start)
        self._choices: dict[int, _Choices] = {}
        self._tokens: dict[int, int] = {}
        self._forced: dict[int, tuple[list[int], int]] = {}

    @property
    def minimum(self) -> int:
        """Tokens of the shortest answer `[]`, its end included."""
        return self.needs(self.automaton.start) + 1

    def matcher(self, budget: int) -> Matcher:
        """A matcher for one answer of at most `budget` tokens, the end included.

        **Raises:** `ValueError` when not even `[]` fits.
        """
        return Matcher(self, budget)

    def allows(self, text: str) -> bool:
        """Whether `text` is a complete answer."""
        try:
            raw = self._lead + text.encode()
        except UnicodeEncodeError:
            return False
        state = self.automaton.run(self.automaton.start, raw)
        return self.automaton.accepting(state) and (not self.free_keys or Keys().admits(raw))

    def choices(self, state: int) -> _Choices:
        found = self._choices.get(state)
        if found is None:
            ids, states = self.vocabulary.walk(self.automaton, state)
            targets, group = np.unique(states, return_inverse=True)
            flags = np.zeros(self.vocabulary.words * 32, bool)
            flags[ids] = True
            flags[EOS] = self.automaton.accepting(state)
            bits = np.packbits(flags, bitorder="little").view(np.int32)
            worst = int(self.automaton.costs[targets].max()) if len(targets) else 0
            found = _Choices(ids, group.astype(np.uint16), targets.tolist(), bits, worst)
            self._choices[state] = found
        return found

    def needs(self, state: int) -> int:
        """Tokens that are enough to write a text to its end from `state` (EOS not counted)."""
        if self.automaton.marked[state]:  # the key may need one more character to be a new one
            return self.automaton.cost(state) + 1
        known = self._tokens.get(state)
        if known is None:
            known = self._tokens[state] = len(self.vocabulary.encode(self.automaton.shortest(state)))
        return known

    def fits(self, state: int, left: int) -> bool:
        """Whether an answer in `state` can be ended within `left` tokens."""
        # A token has at least one byte, so most states need no tokenizer to be sure.
        return bool(self.automaton.costs[state] + 2 <= left) or self.needs(state) + 1 <= left

    def forced(self, state: int) -> tuple[list[int], int]:
        """Tokens that must come next whatever follows, and the state after them."""
        found = self._forced.get(state)
        if found is None:
            found = self._forced[state] = self._force(state)
        return found

    def _force(self, state: int) -> tuple[list[int], int]:
        automaton = self.automaton
        text, states = bytearray(), [state]
        while (b := automaton.only_byte(states[-1])) is not None:
            text.append(b)
            states.append(automaton.step(states[-1], b))
        ends = automaton.accepting(states[-1]) and automaton.stuck(states[-1])
        end = len(text)
        if not ends and text:
            crossed = self.vocabulary.spans(automaton, bytes(text), states[-1])
            while end and (crossed[end] or _inside_character(automaton, states[end])):
                end -= 1
        ids = self.vocabulary.encode(bytes(text[:end])) if end else []
        if ends:
            return [*ids, EOS], states[-1]
        return ids, states[end]


def _inside_character(automaton: Automaton, state: int) -> bool:
    parts = automaton.expand(state)
    return bool(parts) and all(mask < 1 << 0xC0 and mask >> 0x80 for mask, _ in parts)


class Matcher:
    """One answer on its way: what may come next, and the promise that it ends within the budget.

    Before every token a way to the end is known that fits into what is left; tokens after which there would be
    none are not offered. Far from the budget nothing of it is computed.
    """

    def __init__(self, grammar: Grammar, budget: int):
        """See `Grammar.matcher`."""
        if budget < grammar.minimum:
            raise ValueError(
                f"the budget is {budget} tokens, but the empty answer `[]` and its end take {grammar.minimum}; "
                "raise max_new_tokens"
            )
        self.grammar = grammar
        self.left = budget
        """Tokens that may still come, the end included."""
        self.finished = False
        """Whether the end has come."""
        self._state = grammar.automaton.start
        self._plan: list[int] | None = None
        self._keys = Keys() if grammar.free_keys else None

    def copy(self) -> Matcher:
        """An independent matcher at the same place."""
        other = Matcher.__new__(Matcher)
        other.__dict__.update(self.__dict__)
        other._keys = None if self._keys is None else self._keys.copy()
        return other

    def mask(self) -> np.ndarray:
        """Which tokens may come next, bool [v]."""
        row = np.empty(self.grammar.vocabulary.words, np.int32)
        self.fill(row)
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        return bits[: self.grammar.vocabulary.size].astype(bool)

    def fill(self, row: np.ndarray) -> None:
        """Write the mask into `row`, int32 of at least ceil(v / 32) words: bit i % 32 of word i // 32 is token i.

        A finished answer admits only padding, token 0.
        """
        words = self.grammar.vocabulary.words
        if row.dtype != np.int32 or row.ndim != 1 or len(row) < words:
            raise ValueError(
                f"a mask row must be int32 of at least {words} words, not {row.dtype} {row.shape}"
            )
        row[words:] = 0
        if self.finished:
            row[:words] = 0
            row[0] = 1
            return
        choices = self.grammar.choices(self._state)
        row[:words] = choices.bits
        if choices.worst + 2 > self.left - 1:
            self._narrow(row, choices)
        if self._keys is not None:
            self._without_repeated(row[:words])

    def _narrow(self, row: np.ndarray, choices: _Choices) -> None:
        fits = np.array([self.grammar.fits(t, self.left - 1) for t in choices.targets])
        if fits.all():
            return
        flags = np.unpackbits(choices.bits.view(np.uint8), bitorder="little")
        flags[choices.ids[~fits[choices.group]]] = 0
        flags[self.plan()[0]] = 1
        row[: len(choices.bits)] = np.packbits(flags, bitorder="little").view(np.int32)

    def _without_repeated(self, row: np.ndarray) -> None:
        vocabulary = self.grammar.vocabulary
        quoted = vocabulary.quoted
        offered = quoted[(row[quoted >> 5] >> (quoted & 31)) & 1 == 1]
        assert self._keys is not None
        for i in offered.tolist():
            if not self._keys.admits(vocabulary.pieces[i]):
                row[i >> 5] &= ~np.uint32(1 << (i & 31)).view(np.int32)

    def plan(self) -> list[int]:
        """Tokens of a way to the end, the end included; it fits into what is left."""
        if self._plan is None:
            encode = self.grammar.vocabulary.encode
            text = self.grammar.automaton.shortest(self._state)
            if self._keys is not None and self.grammar.automaton.marked[self._state]:
                head, extra, rest = self._keys.ending(text)
                self._plan = [*encode(head), *encode(extra), *encode(rest), EOS]
            else:
                self._plan = [*encode(text), EOS]
        return self._plan

    def forced(self) -> list[int]:
        """The tokens that must come now, whatever the weights say; empty where there is a choice.

        They are cut as the tokenizer cuts the whole answer, so they may end before the text stops being forced:
        where a piece could reach across the end. The end of the answer is the last of them where it is forced.
        """
        if self.finished:
            return []
        ids, after = self.grammar.forced(self._state)
        if not ids:
            return []
        ends = ids[-1] == EOS
        if not ends and self.grammar.automaton.costs[self._state] + 2 <= self.left:
            return list(ids)
        # Near the budget the way through these tokens has to be the plan.
        rest = [] if ends else [*self.grammar.vocabulary.encode(self.grammar.automaton.shortest(after)), EOS]
        if len(ids) + len(rest) > self.left:
            return []
        self._plan = [*ids, *rest]
        return list(ids)

    def consume(self, token: int) -> None:
        """Take the next token.

        **Raises:** `ValueError` for a token that the mask does not offer.
        """
        if self.finished:
            raise ValueError(f"token {token} after the end of the answer")
        automaton = self.grammar.automaton
        if token == EOS:
            if not automaton.accepting(self._state):
                raise ValueError("the answer is not complete: it cannot end here")
            self.left -= 1
            self.finished = True
            return
        vocabulary = self.grammar.vocabulary
        if not FIRST_TEXT <= token < vocabulary.size:
            raise ValueError(f"token {token} is no text (control symbols are below {FIRST_TEXT})")
        piece = vocabulary.pieces[token]
        target = automaton.run(self._state, piece)
        repeats = self._keys is not None and target and not self._keys.admits(piece)
        if not target or repeats or vocabulary.ids[piece] != token:
            raise ValueError(f"token {token} ({piece!r}) is not admitted by the tools here")
        plan: list[int] | None = None
        if not self.grammar.fits(target, self.left - 1):
            if self.plan()[0] != token:
                raise ValueError(f"after token {token} the answer could not end within {self.left} tokens")
            plan = self.plan()[1:]
        elif self._plan and self._plan[0] == token:
            plan = self._plan[1:]
        self._state, self._plan = target, plan
        self.left -= 1
        if self._keys is not None:
            self._keys.feed(piece)


def compile_grammar(
    tools: Sequence[Tool], tokenizer: Tokenizer, max_calls: int | None = None
) -> Grammar:  # fmt: skip
    """The grammar of all answers to `tools`: `[]`, or calls as `render_answer` writes them.

    At most `max_calls` calls; without it only the budget bounds them.

    **Raises:** `SchemaError` naming tool, place and keyword when a tool's schema cannot be enforced exactly.
    """
    if not tools:
        raise ValueError("a grammar needs at least one tool")
    return Grammar(tools, tokenizer, max_calls)
