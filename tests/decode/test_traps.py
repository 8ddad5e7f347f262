"""Traps of constrained decoding (T6) and verbatim copies (T8, T9), through the real loop."""

from __future__ import annotations

import io
from functools import cache

import numpy as np
import pytest
import sentencepiece as spm

from needlex.data.render import render_answer
from needlex.data.tokenizer import EOS, Tokenizer
from needlex.decode.grammar import compile_grammar
from needlex.schema import Call
from tests.decode.answers import STYLES, check, scores, tokenizer, tool
from tests.decode.test_grammar import TRAPS
from tests.decode.wishes import asked, follows, spells, wishing

# --- traps (T6) ---


@cache
def crossing_tokenizer() -> Tokenizer:
    """Its pieces do not care where strings begin and end."""
    texts = [
        '[{"name":"send","arguments":{"to":"Ann"}}]',
        '[{"name":"send_message","arguments":{"list":["x"]}}]',
    ]
    texts += ['[{"name":"ping","arguments":{}},{"name":"send","arguments":{"n":3.5,"to":"Bob"}}]'] * 2
    made = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(texts * 20), model_writer=made, model_type="bpe", vocab_size=420, byte_fallback=True,
        normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
        split_by_unicode_script=False, split_by_number=False, hard_vocab_limit=False, pad_id=0, eos_id=1, bos_id=2,
        unk_id=3, pad_piece="<pad>", control_symbols=["<tool_call>", "<tools>"],
        user_defined_symbols=["\u2581"], minloglevel=2, num_threads=1,
    )  # fmt: skip
    return Tokenizer(made.getvalue())


def test_a_token_may_end_the_prefix_and_start_the_name():
    """Such a token is offered exactly where some tool's name goes on as it does."""
    made, prefix = crossing_tokenizer(), b'[{"name":"'
    over = {p: i for i, p in enumerate(made.pieces) if b'"name":"' in p and p[-1:].isalpha()}
    names = [t.name for t in TRAPS]
    offered = set()
    for left_out in ([], *([n] for n in names), ["send", "send_message"]):
        kept = tuple(t for t in TRAPS if t.name not in left_out)
        grammar = compile_grammar(kept, made)
        for piece, i in over.items():
            head, _, start = piece.rpartition(b'"')
            matcher = grammar.matcher(90)
            for byte in prefix[: -len(head) - 1]:
                matcher.consume(grammar.vocabulary.ids[bytes([byte])])
            right = any(t.name.encode().startswith(start) for t in kept)
            assert matcher.mask()[i] == right, (piece, left_out)
            offered.add(right)
    assert over and offered == {True, False}


CROSSING = '[{"name":"send","arguments":{"to":"Ann"}},{"name":"ping","arguments":{}}]'


@pytest.mark.parametrize("which", [crossing_tokenizer, tokenizer], ids=["crossing", "own"])
def test_tokens_over_the_borders_of_names_and_strings(which, monkeypatch):
    """Also with content and the closing quote in one piece: they come out where they fit, and nothing else does."""
    made = which()
    with_end = [p for p in made.pieces if p[:1].isalpha() and b'"' in p]
    assert bool(with_end) == (which is crossing_tokenizer)
    wishing(monkeypatch, spells(made, CROSSING))
    (answer,) = asked([compile_grammar(TRAPS, made).matcher(120)], made, 119)
    assert made.decode(answer.tokens) == CROSSING and answer.finished
    for style in STYLES:
        liked = scores(style, np.random.default_rng(1), made.pieces)
        liked += 15 * np.array(
            [any(c in p for c in b'"{[') and p.strip(b'"{}[],:') != b"" for p in made.pieces]
        )
        wishing(monkeypatch, lambda row, before, liked=liked: liked)
        for budget in (20, 45, 80):
            (answer,) = asked([compile_grammar(TRAPS, made).matcher(budget)], made, budget)
            assert answer.finished and len(answer.tokens) < budget
            check(made.decode(answer.tokens), TRAPS)


WRONG = {
    "duplicate keys": '[{"name":"send","arguments":{"n":1,"n":2,"n":3,"to":"a","to":"b"}}]',
    "duplicate free keys": '[{"name":"größe","arguments":{"free":{"a":1,"a":2,"a":{"b":1,"b":2}}}}]',
    "a name with its quotes bare": '[{"name":"say "hi"\\n","arguments":{"k"":"x"}}]',
    "a name folded": '[{"name":"grosse","arguments":{}},{"name":"gröβe","arguments":{}}]',
    "less than a name": '[{"name":"sen","arguments":{"to":"x"}}]',
    "between two names": '[{"name":"send_","arguments":{"to":"x"}}]',
    "arguments of the longer name": '[{"name":"send","arguments":{"list":["x"]}}]',
    "arguments of a tool without": '[{"name":"ping","arguments":{"to":"x"}}]',
    "null arguments": '[{"name":"ping","arguments":null}]',
    "a list that the string closes": '[{"name":"send_message","arguments":{"list":["]]],"x}]]',
    "spaces": '[ {"name" : "send", "arguments": {"to": "x"} } ] ',
    "lines": '\n[\n\t{"name":"send",\r\n"arguments":{}}]\n',
    "3.5.5": '[{"name":"send","arguments":{"n":3.5.5}}]',
    "[1,]": '[{"name":"größe","arguments":{"free":{"a":[1,]}}}]',
    "[,1]": '[{"name":"größe","arguments":{"free":{"a":[,1]}}}]',
    "an endless string": '[{"name":"send","arguments":{"to":"' + "never ends " * 30,
    "an endless number": '[{"name":"send","arguments":{"n":' + "123456789" * 30,
    "endless brackets": '[{"name":"größe","arguments":{"free":{"a":' + "[" * 200,
    "an escape at the end": '[{"name":"send","arguments":{"to":"' + '\\"\\\\' * 60,
    "half a character at the end": '[{"name":"send","arguments":{"to":"' + "🙂" * 60,
    "ascii escapes": '[{"name":"send","arguments":{"to":"\\u65e5\\u672c"}}]',
}


@pytest.mark.parametrize("name", WRONG)
def test_a_model_that_wants_something_wrong_gets_something_valid(name, monkeypatch):
    """At every budget, wherever it cuts: inside a string, an escape, a character, a number, a name."""
    for made, every in ((tokenizer(), 1), (crossing_tokenizer(), 3)):
        wishing(monkeypatch, spells(made, WRONG[name]))
        grammar = compile_grammar(TRAPS, made)
        assert not grammar.allows(WRONG[name])
        budgets = range(grammar.minimum, grammar.minimum + 64 * every, 2 * every)
        found = asked([grammar.matcher(b) for b in budgets], made, budgets[-1])
        for budget, answer in zip(budgets, found, strict=True):
            assert answer.finished and len(answer.tokens) < budget
            check(made.decode(answer.tokens), TRAPS)
        # It went along as far as it could: the answer is not merely empty.
        assert len(found[-1].tokens) > 4, name


RIGHT = {
    "send": [Call("send", {"to": "x"}), Call("send_message", {"list": []})],
    "no arguments": [Call("ping"), Call("ping"), Call("send")],
    "quotes in names": [Call('say "hi"\n', {'k"': '"', "ключ": -1}), Call("größe")],
    "brackets in strings": [
        Call("send_message", {"list": ["]", "[", "}],", '"]}]', '{"name":"ping"}', "\\"]})
    ],
    "spaces in strings": [Call("send", {"to": "  a\n\tb \r "}), Call("send_message", {"list": [" ", ""]})],
    "numbers": [Call("send", {"n": 3.5}), Call("größe", {"free": {"a": [1], "b": [1, [2.5, -0.1]]}})],
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_model_that_wants_something_right_gets_it(name, monkeypatch):
    text = render_answer(RIGHT[name])[0]
    check(text, TRAPS)
    for made in (tokenizer(), crossing_tokenizer()):
        budget = len(text.encode()) + 60
        for wish in (follows(made, [made.encode(text)]), spells(made, text)):
            wishing(monkeypatch, wish)
            (answer,) = asked([compile_grammar(TRAPS, made).matcher(budget)], made, budget)
            assert made.decode(answer.tokens) == text and answer.finished


# --- verbatim copies (T8, T9) ---

LONG = "Nachricht an Zoë: „Übergabe um 7:30 – Größe 1.234,56 € (ca. 12'345.67)“, d'Artagnan & O’Neill; " * 4
COPIES = [
    LONG[:300],
    "a" * 300,
    "1.234,56",
    "1\u202f234,56\u00a0€",
    "١٢٣٫٤٥",
    "👩‍👩‍👧‍👦 🇫🇷 🙂🏽",
    "Ann-Sophie O'Neill d'Été-Łukasz",
    "«Der Zauberberg» / 魔の山 (Тома́с Манн)",
    "cafe\u0301 caf\u00e9 \ufb01",
    "D:\\x\\\"new\" \t\x00\x7f\u2028\u2581 </s><tool_call>",
    '[{"name":"ping","arguments":{}}]',
]  # fmt: skip


@pytest.mark.parametrize("value", COPIES, ids=lambda v: ascii(v[:16]))
def test_verbatim_copies_survive_token_by_token(value, monkeypatch):
    """Admitted token by token as the tokenizer writes them, replayed by the loop, and read back letter for letter."""
    tools = (tool({"text": {"type": "string"}}, ("text",), "note"), tool({}, (), "stop"))
    text = render_answer([Call("note", {"text": value})])[0]
    ids, grammar = tokenizer().encode(text), compile_grammar(tools, tokenizer())
    assert "\\u" not in text.replace("\\u0000", "")
    matcher = grammar.matcher(len(ids) + 30)
    for token in ids:
        assert matcher.mask()[token]
        matcher.consume(token)
    assert matcher.mask()[EOS]
    budget = len(ids) + 30
    wishing(monkeypatch, follows(tokenizer(), [ids]))
    (answer,) = asked([grammar.matcher(budget)], tokenizer(), budget)
    assert answer.tokens == ids and answer.finished
    (call,) = check(tokenizer().decode(answer.tokens), tools)
    assert call["arguments"] == {"text": value}
