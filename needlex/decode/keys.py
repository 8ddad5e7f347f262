"""Keys that an object of free keys already has: the one thing about an answer that no finite machine can know."""

from __future__ import annotations

MAX_KEYS = 64
"""Members of an object with free keys: there is always one more character that makes a key new."""
_QUOTE, _ESCAPE, _COMMA, _OPEN, _CLOSE = b'"'[0], b"\\"[0], b","[0], b"{["[0], b"}]"[0]
_ARRAY, _END_ARRAY = b"["[0], b"]"[0]


class Keys:
    """Reads the bytes of a JSON text and keeps the keys of the objects that are open."""

    def __init__(self):
        self._open: list[set[bytes] | None] = []  # None stands for an array
        self._text: bytearray | None = None  # the string that is being read
        self._is_key = self._escaped = False

    def copy(self) -> Keys:
        other = Keys()
        other._open = [None if k is None else set(k) for k in self._open]
        other._text = None if self._text is None else bytearray(self._text)
        other._is_key, other._escaped = self._is_key, self._escaped
        return other

    def admits(self, text: bytes) -> bool:
        """Whether `text` may follow; changes nothing."""
        return self.copy().feed(text) == len(text)

    def feed(self, text: bytes) -> int:
        """Read bytes up to one that repeats a key or begins one too many; how many were read."""
        for i, b in enumerate(text):
            if self._text is not None:
                if self._escaped:
                    self._escaped = False
                elif b == _ESCAPE:
                    self._escaped = True
                elif b == _QUOTE:
                    if self._is_key and not self._closed(bytes(self._text)):
                        return i
                    self._text = None
                    self._is_key = False
                    continue
                self._text.append(b)
            elif b == _QUOTE:
                self._text = bytearray()
            elif b == _OPEN:
                self._open.append(set())
                self._is_key = True
            elif b == _ARRAY:
                self._open.append(None)
                self._is_key = False
            elif b in (_CLOSE, _END_ARRAY):
                if self._open:
                    self._open.pop()
                self._is_key = False
            elif b == _COMMA:
                keys = self._open[-1] if self._open else None
                if keys is not None and len(keys) >= MAX_KEYS:
                    return i
                self._is_key = keys is not None
        return len(text)

    def _closed(self, key: bytes) -> bool:
        keys = self._open[-1]
        if keys is None or key in keys:
            return False
        keys.add(key)
        return True

    def ending(self, text: bytes) -> tuple[bytes, bytes, bytes]:
        """`text`, cut where a character has to be put in so that its first key is a new one: (head, character, rest)."""
        probe = self.copy()
        read = probe.feed(text)
        if read == len(text):
            return text, b"", b""
        assert probe._text is not None and probe._open[-1] is not None
        for code in range(0x61, 0x61 + 0x60):
            extra = bytes([code if code < 0x7F else code - 0x5F])
            if extra not in b'"\\' and bytes(probe._text) + extra not in probe._open[-1]:
                return text[:read], extra, text[read:]
        raise AssertionError("an object has more keys than MAX_KEYS")
