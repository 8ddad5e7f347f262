"""The pieces of a tokenizer as a tree of bytes, for walking an automaton with all of them at once."""

from __future__ import annotations

import numpy as np

from needlex.data.tokenizer import Tokenizer
from needlex.decode.machine import Automaton

FIRST_TEXT = 6
"""Ids below are control symbols and never part of a text."""


class Vocabulary:
    """Pieces by their bytes. Of two pieces with the same bytes (a character and its byte piece), the character's
    is the one that the tokenizer writes, and the only one that is offered."""

    def __init__(self, tokenizer: Tokenizer):
        self.size = tokenizer.vocab_size
        self.words = -(-self.size // 32)
        self.dummy_prefix = tokenizer.dummy_prefix
        self._encode = tokenizer.encode
        best: dict[bytes, int] = {}
        for i, piece in enumerate(tokenizer.pieces):
            if i < FIRST_TEXT or not piece:
                continue
            if piece not in best or not tokenizer._sp.is_byte(i):
                best[piece] = i
        self.pieces = tokenizer.pieces
        self.ids = best
        self.byte_ids = [best.get(bytes([b]), -1) for b in range(256)]
        prefixes = {p[:n] for p in best for n in range(1, len(p) + 1)}
        ordered = sorted(prefixes, key=lambda p: (len(p), p))
        place = {p: i for i, p in enumerate(ordered)}
        self.nodes = place
        self.token = np.array([best.get(p, -1) for p in ordered], np.int32)
        self.byte = np.array([p[-1] for p in ordered], np.uint8)
        self.parent = np.array([place.get(p[:-1], -1) for p in ordered], np.int32)
        lengths = np.array([len(p) for p in ordered])
        # Nodes are sorted by length, then by bytes: the children of a node are neighbours.
        self.levels = [
            slice(int(a), int(b))
            for a, b in zip(
                np.searchsorted(lengths, np.arange(1, lengths[-1] + 1)),
                np.searchsorted(lengths, np.arange(2, lengths[-1] + 2)),
                strict=True,
            )
        ]
        self.first_child = np.searchsorted(self.parent, np.arange(len(ordered)))
        self.children = np.bincount(self.parent[self.parent >= 0], minlength=len(ordered))
        self.quoted = np.array(sorted(i for p, i in best.items() if b'"' in p or b"," in p), np.int32)
        """Ids of the pieces that could end a key or begin the next."""

    def walk(self, automaton: Automaton, state: int) -> tuple[np.ndarray, np.ndarray]:
        """Ids that may come next in `state`, and the state after each."""
        ids, targets = [], []
        level = self.levels[0]
        if not automaton.expanded[state]:
            automaton.expand(state)
        nodes = np.arange(level.start, level.stop)
        states = automaton.rows[state, self.byte[level]]
        while True:
            alive = np.flatnonzero(states)
            if not len(alive):
                break
            nodes, states = nodes[alive], states[alive]
            ends = self.token[nodes]
            is_token = ends >= 0
            ids.append(ends[is_token])
            targets.append(states[is_token])
            counts = self.children[nodes]
            inner = np.flatnonzero(counts)
            if not len(inner):
                break
            nodes, states, counts = nodes[inner], states[inner], counts[inner]
            if not automaton.expanded[states].all():
                for s in set(states.tolist()):
                    automaton.expand(s)
            total = int(counts.sum())
            offsets = np.repeat(self.first_child[nodes] - np.cumsum(counts) + counts, counts)
            nodes = offsets + np.arange(total)
            states = automaton.rows[np.repeat(states, counts), self.byte[nodes]]
        if not ids:
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        return np.concatenate(ids), np.concatenate(targets)

    def encode(self, text: bytes) -> list[int]:
        """Ids of `text` as the tokenizer writes it; bytes that are no whole character stand alone."""
        start = 0
        while start < len(text) and text[start] & 0xC0 == 0x80:
            start += 1
        end = len(text)
        for back in range(1, min(4, end - start) + 1):  # a character that is not complete
            lead = text[end - back]
            if lead & 0xC0 != 0x80:
                if lead >= 0xC0 and back < (2 if lead < 0xE0 else 3 if lead < 0xF0 else 4):
                    end -= back
                break
        middle = text[start:end]
        inner = (
            self._longest(middle) if self.dummy_prefix else self._encode(middle.decode()) if middle else []
        )
        return [*(self.byte_ids[b] for b in text[:start]), *inner, *(self.byte_ids[b] for b in text[end:])]

    def _longest(self, text: bytes) -> list[int]:
        # A tokenizer that puts a space before every text cannot write a part of one.
        out, i = [], 0
        while i < len(text):
            j = i + 1
            while j < len(text) and text[i : j + 1] in self.nodes:
                j += 1
            while text[i:j] not in self.ids:
                j -= 1
            out.append(self.ids[text[i:j]])
            i = j
        return out

    def spans(self, automaton: Automaton, text: bytes, after: int) -> list[bool]:
        """For each position 0..len(text), whether a piece could lie across it when `text` goes on from state `after`."""
        crossed = [False] * (len(text) + 1)
        longest = len(self.levels)
        for i in range(len(text)):
            reach = i
            for j in range(i + 1, min(len(text), i + longest) + 1):
                node = self.nodes.get(text[i:j])
                if node is None:
                    break
                if self.token[node] >= 0:
                    reach = j
                if j == len(text) and self._reaches(automaton, node, after):
                    reach = j + 1
            for j in range(i + 1, min(reach, len(text) + 1)):
                crossed[j] = True
        return crossed

    def _reaches(self, automaton: Automaton, node: int, state: int) -> bool:
        """Whether a longer piece of this beginning is possible from `state`."""
        todo = [(node, state)]
        while todo:
            node, state = todo.pop()
            first = int(self.first_child[node])
            for child in range(first, first + int(self.children[node])):
                target = automaton.step(state, int(self.byte[child]))
                if target:
                    if self.token[child] >= 0:
                        return True
                    todo.append((child, target))
        return False


def vocabulary(tokenizer: Tokenizer) -> Vocabulary:
    """The vocabulary of a tokenizer, made once and kept by the tokenizer itself: it goes when the tokenizer goes."""
    found = tokenizer.__dict__.get("_vocabulary")
    if found is None:
        found = tokenizer.__dict__["_vocabulary"] = Vocabulary(tokenizer)
    return found
