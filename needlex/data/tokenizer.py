"""SentencePiece BPE with an exact round trip.

Identity normalisation, no dummy prefix, no squeezing of spaces, byte fallback, digits one by one. The space
is a piece of its own, so a word is cut the same way after a space, a quote or a line break: the model can
copy it token by token. `<tool_call>` and `<tools>` are control symbols: no text a user types can become one.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import sentencepiece as spm

PAD, EOS, BOS, UNK, TOOL_CALL, TOOLS = range(6)

_SPACE = "\u2581"  # what SentencePiece writes for a space


@dataclass(frozen=True)
class TokenizerConfig:
    """How the tokenizer is trained, or where a trained one lies."""

    vocab_size: int = 8192
    """Number of pieces, the 6 special and 256 byte pieces included."""
    path: str | None = None
    """A trained SentencePiece model to use instead of training one."""
    max_sentences: int = 50_000
    """Texts of the training data that the tokenizer is trained on (sampled evenly)."""

    def __post_init__(self):
        if self.path is None and self.vocab_size < 300:
            raise ValueError(
                f"tokenizer.vocab_size is {self.vocab_size}; 263 pieces are reserved for bytes and specials, "
                "use at least 300"
            )


class Tokenizer:
    """Text to ids and back; `decode(encode(text)) == text` for every string.

    Only a v1 tokenizer is lossy: it squeezes spaces and puts one before the text (`dummy_prefix`). Its
    `<tool_call>` and `<tools>`, which a user could type, are made control symbols on loading.
    """

    def __init__(self, proto: bytes):
        """`proto` is a serialised SentencePiece model.

        **Raises:** `ValueError` if it is no such model, its special pieces are not ids 0 to 5 or a byte has
        no piece.
        """
        self.proto = proto = _control_symbols(proto)
        try:
            if not proto:
                raise RuntimeError("it is empty")
            self._sp = spm.SentencePieceProcessor(model_proto=proto)
            size = self._sp.vocab_size()
        except (RuntimeError, OSError) as e:
            raise ValueError(f"not a SentencePiece model ({len(proto)} bytes): {e}") from None
        expected = ["<pad>", "</s>", "<s>", "<unk>", "<tool_call>", "<tools>"]
        found = [self._sp.id_to_piece(i) for i in range(min(6, size))]
        if found != expected:
            raise ValueError(f"ids 0 to 5 of the tokenizer must be {expected}, found {found}")
        self._literal_space = [self._sp.piece_to_id(f"<0x{b:02X}>") for b in _SPACE.encode()]
        if any(self._sp.piece_to_id(f"<0x{b:02X}>") == UNK for b in range(256)):
            raise ValueError("the tokenizer has no byte pieces; train it with byte_fallback")
        self.pieces: tuple[bytes, ...] = tuple(self._piece_bytes(i) for i in range(size))
        self._lengths = np.array([len(p) for p in self.pieces], np.int64)
        self._remembered = lru_cache(maxsize=1 << 15)(self._encode_array)
        self.dummy_prefix: bool = self.pieces[self._sp.encode("a")[0]].startswith(b" ")

    def __reduce__(self):  # to data workers
        return Tokenizer, (self.proto,)

    def _piece_bytes(self, i: int) -> bytes:
        if self._sp.is_control(i) or self._sp.is_unknown(i):
            return b""
        piece = self._sp.id_to_piece(i)
        if self._sp.is_byte(i):
            return bytes([int(piece[3:-1], 16)])
        if i in (TOOL_CALL, TOOLS):  # user-defined in v1 tokenizers, control here
            return b""
        return piece.replace(_SPACE, " ").encode()

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; never a special id.

        **Raises:** `ValueError` for a lone surrogate, which no UTF-8 text can hold.
        """
        try:
            if _SPACE not in text or self.dummy_prefix:
                return self._sp.encode(text)
            ids: list[int] = []
            for i, part in enumerate(text.split(_SPACE)):  # must not come back as the space it stands for
                ids += (self._literal_space if i else []) + self._sp.encode(part)
            return ids
        except (RuntimeError, TypeError):
            _check_unicode(text)
            raise

    def encode_array(self, text: str) -> np.ndarray:
        """Ids of `text` as a read-only int32 array; texts seen before are looked up."""
        return self._remembered(text)

    def _encode_array(self, text: str) -> np.ndarray:
        ids = np.array(self.encode(text), np.int32)
        ids.flags.writeable = False
        return ids

    def decode(self, ids: Iterable[int] | np.ndarray) -> str:
        """Text of `ids`; special ids are silent, broken UTF-8 becomes U+FFFD."""
        text = b"".join([self.pieces[int(i)] for i in ids]).decode("utf-8", errors="replace")
        return text.removeprefix(" ") if self.dummy_prefix else text

    def byte_lengths(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """UTF-8 bytes of each piece, shape [len(ids)]."""
        return self._lengths[np.asarray(ids, np.int64)]

    def save(self, path: str | Path) -> None:
        Path(path).write_bytes(self.proto)

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"no tokenizer at {path}; give a SentencePiece .model file")
        return cls(path.read_bytes())


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as e:
        raise ValueError(f"the text is not valid Unicode at character {e.start}: {e.reason}") from None


_USER_DEFINED = re.compile(rb"(\n[\x07\x0b]<(?:tool_call|tools)>\x15.{4}\x18)\x04", re.DOTALL)


def _control_symbols(proto: bytes) -> bytes:
    # The type of a piece is one byte of the protocol buffer: field 3, 4 for user-defined and 3 for control.
    return _USER_DEFINED.sub(lambda m: m[1] + b"\x03", proto)


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Train a tokenizer on `texts`, deterministically: the same texts give the same model, byte for byte.

    A small corpus may not hold `vocab_size` pieces; the tokenizer is then smaller, so a model takes its
    vocabulary from `Tokenizer.vocab_size`, never from the configuration.

    **Raises:** `ValueError` when there is no text, or it cannot be trained on.
    """
    model = io.BytesIO()
    lines = [t for t in texts if t]
    if not lines:
        raise ValueError("cannot train a tokenizer on no text; check the data")
    for line in lines:
        _check_unicode(line)
    if (
        len(lines) > config.max_sentences
    ):  # a fixed stride would favour one kind of text where kinds alternate
        chosen = np.random.default_rng(0).choice(len(lines), config.max_sentences, replace=False)
        lines = [lines[i] for i in np.sort(chosen)]
    try:
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=config.vocab_size,
            byte_fallback=True, normalization_rule_name="identity", add_dummy_prefix=False,
            remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True,
            character_coverage=0.9999, max_sentence_length=1 << 20, hard_vocab_limit=False,
            pad_id=PAD, eos_id=EOS, bos_id=BOS, unk_id=UNK, pad_piece="<pad>", eos_piece="</s>",
            bos_piece="<s>", unk_piece="<unk>", control_symbols=["<tool_call>", "<tools>"],
            user_defined_symbols=[_SPACE], num_threads=1, minloglevel=2,
        )  # fmt: skip
    except RuntimeError as e:
        raise ValueError(
            f"training a tokenizer of {config.vocab_size} pieces on {len(lines)} texts failed: {e}; "
            "lower tokenizer.vocab_size or give more data"
        ) from None
    return Tokenizer(model.getvalue())
