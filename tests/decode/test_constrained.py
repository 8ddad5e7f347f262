"""Decoding under grammars against one full forward pass a token, and predictions that are always valid."""

from __future__ import annotations

import numpy as np

from needlex.data.encode import encode_query
from needlex.data.render import RenderConfig
from needlex.decode.engine import EOS, Engine
from needlex.decode.grammar import compile_grammar
from needlex.decode.loop import generate
from needlex.decode.predict import predict
from needlex.model.seq2seq import Seq2Seq
from needlex.schema import Call, parse_tools
from tests.data.rows import tokenizer
from tests.decode.answers import check
from tests.decode.test_engine import full_logits
from tests.decode.test_predict import model

QUERIES = ["dim the lamp to 40", "hello", "send it to Ann and Bob", "what now", "ring at seven"]
TOOLS = parse_tools(
    [
        {"name": "dim", "parameters": {"to": "integer", "lamp": "string"}},
        {"name": "send", "parameters": {"to": {"type": "string", "enum": ["Ann", "Bob"]}}},
        {"name": "ring"},
    ]
)


def oracle(tested: Seq2Seq, encoder: np.ndarray, budget: int) -> tuple[list[int], float]:
    """Greedy under the mask with a full forward pass for every single token, forced or not."""
    matcher = compile_grammar(TOOLS, tokenizer()).matcher(budget)
    decoder, tokens, total = np.full(budget + 3, 7, np.int32), [], 0.0
    decoder[:2] = EOS, 4
    while True:
        logits = full_logits(tested, encoder, decoder)[len(tokens) + 1].astype(np.float64)
        forced = matcher.forced() if tokens else []
        token = forced[0] if forced else int(np.where(matcher.mask(), logits, -np.inf).argmax())
        matcher.consume(token)
        total += logits[token] - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
        if token == EOS:
            return tokens, total
        decoder[len(tokens) + 2] = token
        tokens.append(token)


def test_forced_tokens_batches_and_caches_change_nothing():
    """A6: unequal encoder lengths, rows that finish early, several tokens a step, against one token at a time."""
    budget = 40
    coded = [encode_query(q, TOOLS, tokenizer(), RenderConfig(), 200) for q in QUERIES]
    encoder = np.zeros((len(coded), max(map(len, coded))), np.int32)
    for i, ids in enumerate(coded):
        encoder[i, : len(ids)] = ids
    grammar, calling = compile_grammar(TOOLS, tokenizer()), 0
    for seed in range(12):
        matchers = [grammar.matcher(budget) for _ in coded]
        found = generate(Engine(model(seed, 1)), encoder, matchers, budget)
        assert all(a.finished for a in found)
        if sum(a.forced for a in found) < 20:  # a random model that says [] to everything proves little
            continue
        calling += 1
        wanted = [oracle(model(seed, 1), ids, budget) for ids in coded]
        assert [a.tokens for a in found] == [t for t, _ in wanted]
        np.testing.assert_allclose([a.log_probability for a in found], [s for _, s in wanted], rtol=1e-4)
    assert calling >= 2


def test_predictions_are_valid_and_refusals_stay_in_their_row():
    bad = parse_tools([{"name": "f", "parameters": {"type": "object", "properties": {"a": {"not": {}}}}}])
    requests = [(QUERIES[0], TOOLS), ("x", bad), (QUERIES[1], TOOLS), ("y " * 500, TOOLS)]
    found = predict(Engine(model()), tokenizer(), requests, RenderConfig(), 200, 41, 8)
    assert [a.error is None for a in found] == [True, False, True, False]
    assert found[1].error.startswith("schema: tool 'f', parameters/a: 'not'") and found[3].error.startswith(
        "too_long"
    )
    for answer in (found[0], found[2]):
        for raw in check(answer.text, TOOLS):
            Call.from_json(raw)
