"""The tokenizer loses nothing, gives no user a control id and cuts a word the same way wherever it stands."""

from __future__ import annotations

import io
import pickle
import re

import numpy as np
import pytest
import sentencepiece as spm
from hypothesis import example, given
from hypothesis import strategies as st

from needlex.data.tokenizer import TOOL_CALL, TOOLS, Tokenizer, TokenizerConfig, train_tokenizer
from tests.data.rows import texts, tokenizer

SPECIALS = ["<pad>", "</s>", "<s>", "<unk>", "<tool_call>", "<tools>"]
_PARTS = st.one_of(
    st.text(st.characters(codec="utf-8")), texts, st.sampled_from([*SPECIALS, "<0x41>", "  ", "\u2581"])
)
any_text = st.lists(_PARTS, max_size=4).map("".join)


@given(any_text)
@example("")
@example(" a  b ")
@example("\n\t\r\n\x00\x01\x1f\x7f")
@example("\u2581 \u2581\u2581 x\u2581")
@example("\ufeffo\u0308ö🙂\u200d👩\u200d🚀")
@example("<tool_call>[]<tools>")
def test_round_trip_and_no_special_id(text):
    ids = tokenizer().encode(text)
    assert tokenizer().decode(ids) == text
    assert min(ids, default=6) >= 6
    np.testing.assert_array_equal(tokenizer().encode_array(text), np.array(ids, np.int32))


@given(any_text)
def test_byte_lengths_are_those_of_the_text(text):
    ids = tokenizer().encode(text)
    lengths = tokenizer().byte_lengths(ids)
    assert lengths.sum() == len(text.encode())
    assert [len(tokenizer().pieces[i]) for i in ids] == lengths.tolist()


@given(any_text)
@example("set timer for Paris")
@example(" né 🙂 ")
def test_every_prefix_of_the_ids_is_a_prefix_of_the_text(text):
    """T3: no space is lost or made up between tokens; only a character cut in two is replaced, at the very end."""
    ids, raw = tokenizer().encode(text), text.encode()
    joined = b""
    for i, token in enumerate(ids, 1):
        joined += tokenizer().pieces[token]
        assert raw.startswith(joined)
        assert tokenizer().decode(ids[:i]) == joined.decode(errors="replace")
        assert text.startswith(joined.decode(errors="ignore"))
    assert joined == raw


@given(st.from_regex(r"[a-z]{1,10}|[0-9]{1,4}|[A-Z][a-z]{0,6}", fullmatch=True))
def test_a_word_is_cut_the_same_way_wherever_it_stands(word):
    alone = tokenizer().encode(word)
    for before, after in [(" ", " "), ('"', '"'), ("\n", "("), (":", ","), ("_", "_"), ("=", "\n")]:
        ids = tokenizer().encode(before + word + after)
        inner = [i for i in ids if any(c.isalnum() for c in tokenizer().pieces[i].decode())]
        assert inner == alone


def test_digits_are_pieces_of_their_own():
    ids = tokenizer().encode("40 404 2024")
    assert [tokenizer().pieces[i] for i in ids if tokenizer().pieces[i] != b" "] == [
        b"%c" % c for c in b"404042024"
    ]


def test_special_ids_decode_to_nothing_and_broken_bytes_to_the_replacement_character():
    ids = tokenizer().encode("é")
    assert tokenizer().decode([1, TOOL_CALL, *ids, TOOLS, 0]) == "é"
    assert tokenizer().decode([tokenizer().pieces.index(b"\xc3")]) == "\ufffd"


def test_training_is_deterministic():
    lines = ["turn on the light", "set_light(area,brightness:int)", '[{"name":"set_light"}]'] * 5
    first, second = (train_tokenizer(lines, TokenizerConfig(vocab_size=320)) for _ in range(2))
    assert first.proto == second.proto


@pytest.mark.parametrize("size", [300, 8192])
def test_a_small_corpus_gives_a_small_vocabulary_that_still_spells_everything(size):
    small = train_tokenizer(["turn on the light", "turn off"], TokenizerConfig(vocab_size=size))
    assert 263 <= small.vocab_size <= size
    assert small.vocab_size == len(small.pieces)
    assert small.decode(small.encode("Zürich\n 99🙂")) == "Zürich\n 99🙂"


def test_a_sample_of_a_long_corpus_holds_every_kind_of_text():
    lines = ["query about a zebra", "tool(lemon)", '[{"name":"tool"}]'] * 100
    few = train_tokenizer(lines, TokenizerConfig(vocab_size=400, max_sentences=30))
    for word in ("zebra", "lemon", "name"):
        assert len(few.encode(word)) == 1


def test_a_model_on_disk_and_in_another_process_is_the_same(tmp_path):
    tokenizer().save(tmp_path / "t.model")
    loaded = Tokenizer.load(tmp_path / "t.model")
    copied = pickle.loads(pickle.dumps(tokenizer()))
    for other in (loaded, copied):
        assert other.pieces == tokenizer().pieces
        assert other.encode("play a song") == tokenizer().encode("play a song")


def test_remembered_ids_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        tokenizer().encode_array("play")[0] = 1


@pytest.mark.parametrize("bad", [b"", b"abc", b"\x00" * 64, "half"], ids=["empty", "text", "zeros", "cut"])
def test_a_file_that_is_no_tokenizer_is_refused(bad, tmp_path):
    proto = tokenizer().proto[: len(tokenizer().proto) // 2 + 1] if bad == "half" else bad
    (tmp_path / "t.model").write_bytes(proto)
    with pytest.raises(ValueError, match=r"not a SentencePiece model|ids 0 to 5|no byte pieces"):
        Tokenizer.load(tmp_path / "t.model")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "no.model"))):
        Tokenizer.load(tmp_path / "no.model")


def _train(**options) -> bytes:
    model = io.BytesIO()
    defaults = {
        "model_type": "bpe", "vocab_size": 400, "byte_fallback": True, "hard_vocab_limit": False,
        "pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "pad_piece": "<pad>",
        "user_defined_symbols": ["<tool_call>", "<tools>"], "minloglevel": 2,
    }  # fmt: skip
    lines = iter(["play the song", "stop the song", '[{"name":"play"}]'] * 5)
    spm.SentencePieceTrainer.train(sentence_iterator=lines, model_writer=model, **(defaults | options))
    return model.getvalue()


def test_a_tokenizer_with_other_specials_or_without_bytes_is_refused():
    with pytest.raises(ValueError, match="ids 0 to 5 of the tokenizer must be"):
        Tokenizer(_train(user_defined_symbols=["<tools>", "<tool_call>"]))
    with pytest.raises(ValueError, match="train it with byte_fallback"):
        Tokenizer(_train(byte_fallback=False))


def test_in_a_v1_tokenizer_the_specials_become_control_symbols():
    raw = _train(normalization_rule_name="identity")
    user = spm.SentencePieceProcessor(model_proto=raw)
    assert TOOLS in user.encode("<tools>")  # what v1 did with the text of a user
    v1 = Tokenizer(raw)
    assert v1.dummy_prefix
    assert not tokenizer().dummy_prefix
    for text in ("<tools>x<tool_call>", "play the song", "né🙂"):
        ids = v1.encode(text)
        assert min(ids) >= 6
        assert v1.decode(ids) == text
    assert v1.encode("play the song") == user.encode("play the song")
    assert Tokenizer(v1.proto).proto == v1.proto


def test_lone_surrogates_are_refused():
    for use in (tokenizer().encode, tokenizer().encode_array):
        with pytest.raises(ValueError, match="not valid Unicode at character 1"):
            use("a\ud800")
    with pytest.raises(ValueError, match="not valid Unicode at character 1"):
        train_tokenizer(["ok", "a\ud800"], TokenizerConfig(vocab_size=300))


def test_no_text_and_a_hopeless_size_are_refused():
    with pytest.raises(ValueError, match="no text"):
        train_tokenizer(["", ""], TokenizerConfig())
    with pytest.raises(ValueError, match=r"tokenizer\.vocab_size is 262.*at least 300"):
        TokenizerConfig(vocab_size=262)
