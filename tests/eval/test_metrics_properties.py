"""Agreement with a slow independent count, and what must not matter to the figures."""

import itertools
import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.eval import failures, score
from needlex.schema import Call, Example, Parameter, Tool

NAMES = ["f", "g", "unknown"]
TOOLS = (Tool("f", parameters=(Parameter("a"), Parameter("b"))), Tool("g", parameters=(Parameter("b"),)))
values = st.sampled_from([0, 1, 1.0, True, False, None, "1", [1], [1, 2], [2, 1], {"a": 1}, {"a": True}, {}])


def calls(names, keys):
    arguments = st.dictionaries(st.sampled_from(keys), values, max_size=3)
    return st.lists(st.builds(Call, st.sampled_from(names), arguments), max_size=4)


rows = st.builds(
    lambda expected, source: Example("q", TOOLS, tuple(expected), source),
    calls(NAMES[:2], ["a", "b"]),
    st.sampled_from(["x", "y"]),
)
answers = st.one_of(calls(NAMES, ["a", "b", "c"]), st.none())
pairs = st.lists(st.tuples(rows, answers), max_size=5)


def text_of(predicted: list[Call] | None) -> str:
    return "garbage" if predicted is None else json.dumps([c.to_json() for c in predicted])


def same(a, b) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return sorted(a) == sorted(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return isinstance(a, str) == isinstance(b, str) and a == b


def same_call(a: Call, b: Call) -> bool:
    return a.name == b.name and same(a.arguments, b.arguments)


def in_both(a, b, equal) -> int:
    left, n = list(b), 0
    for x in a:
        for i, y in enumerate(left):
            if equal(x, y):
                del left[i]
                n += 1
                break
    return n


def best_of_all_pairings(expected, predicted):
    """(equal, shared, expected arguments) of the best pairing of one name, by trying all of them."""
    short, long = sorted([expected, predicted], key=len)
    best = None
    for choice in itertools.permutations(long, len(short)):
        equal = shared = total = 0
        for x, y in zip(short, choice, strict=True):
            e, p = (x, y) if short is expected else (y, x)
            both = [k for k in e.arguments if k in p.arguments]
            shared += len(both)
            equal += sum(same(e.arguments[k], p.arguments[k]) for k in both)
            total += len(e.arguments)
        if best is None or (equal, shared, -total) > best:
            best = (equal, shared, -total)
    assert best is not None
    return best[0], best[1], -best[2]


def slow(data: list[tuple[Example, list[Call] | None]]) -> dict:
    """The same figures from lists of booleans and pairwise comparison."""

    def mean(flags):
        flags = list(flags)
        return sum(flags) / len(flags) if flags else None

    def ratio(a, b):
        return a / b if b else None

    expected = sum(len(e.calls) for e, _ in data)
    predicted = sum(len(p or []) for _, p in data)
    names = sum(in_both(e.calls, p or [], lambda x, y: x.name == y.name) for e, p in data)
    whole = sum(in_both(e.calls, p or [], same_call) for e, p in data)
    sums = [0, 0, 0]
    for e, p in data:
        for name in NAMES:
            chosen = [c for c in e.calls if c.name == name], [c for c in p or [] if c.name == name]
            sums = [a + b for a, b in zip(sums, best_of_all_pairings(*chosen), strict=True)]
    equal, shared, total = sums
    known = [(c.name, k) for _, p in data for c in p or [] if c.name != "unknown" for k in c.arguments]

    def exact(e, p):
        return p is not None and len(p) == len(e.calls) == in_both(e.calls, p, same_call)

    return {
        "rows": len(data),
        "parse_rate": mean(p is not None for _, p in data),
        "name_precision": ratio(names, predicted),
        "name_recall": ratio(names, expected),
        "name_f1": ratio(2 * names, expected + predicted),
        "call_precision": ratio(whole, predicted),
        "call_recall": ratio(whole, expected),
        "call_f1": ratio(2 * whole, expected + predicted),
        "exact_match": mean(exact(e, p) for e, p in data),
        "exact_order": mean(exact(e, p) and all(map(same_call, e.calls, p or [])) for e, p in data),
        "argument_accuracy": ratio(equal, total),
        "value_accuracy": ratio(equal, shared),
        "missing_parameters": ratio(total - shared, total),
        "hallucinated_parameters": mean(k not in {"f": "ab", "g": "b"}[name] for name, k in known),
        "unknown_tools": mean(c.name == "unknown" for _, p in data for c in p or []),
        "no_call": {
            "rows": sum(not e.calls for e, _ in data),
            "false_call_rate": mean(bool(p) for e, p in data if not e.calls),
            "correct": mean(p == [] for e, p in data if not e.calls),
        },
        "with_calls": {
            "rows": sum(bool(e.calls) for e, _ in data),
            "missed_call_rate": mean(not p for e, p in data if e.calls),
        },
    }


@settings(max_examples=200, deadline=None)
@given(pairs)
def test_agrees_with_the_slow_count(data):
    found = score([e for e, _ in data], [text_of(p) for _, p in data])
    expected = slow(data)
    assert {key: getattr(found, key) for key in expected} == expected
    short = ("rows", "parse_rate", "name_f1", "call_f1", "exact_match")
    for group, of in (("source", lambda e: e.source), ("call_type", lambda e: e.call_type)):
        for value, entry in found.breakdown[group].items():
            part = slow([(e, p) for e, p in data if of(e) == value])
            assert entry == {name: part[name] for name in short}
    wrong = [exact for exact in (slow([d])["exact_match"] for d in data) if exact == 0]
    assert len(failures([e for e, _ in data], [text_of(p) for _, p in data], 99)) == len(wrong)


@settings(max_examples=100, deadline=None)
@given(pairs, st.randoms(use_true_random=False))
def test_order_of_rows_keys_and_calls_does_not_matter(data, rng: random.Random):
    def shuffled(items):
        return rng.sample(list(items), len(items))

    def turned(value: Any) -> Any:  # every object gets another order of keys, lists keep theirs
        if isinstance(value, dict):
            return {k: turned(v) for k, v in shuffled(value.items())}
        return [turned(v) for v in value] if isinstance(value, list) else value

    def retold(some):
        return None if some is None else [Call(c.name, turned(c.arguments)) for c in shuffled(some)]

    def report(data) -> dict:
        found = score([e for e, _ in data], [text_of(p) for _, p in data]).to_json()
        found.pop("exact_order")  # the only figure that depends on the order of calls
        found["counts"].pop("ordered")
        return found

    other = [
        (Example(e.query, e.tools[::-1], tuple(retold(e.calls) or ()), e.source), retold(p)) for e, p in data
    ]
    assert report(shuffled(other)) == report(data)


@settings(max_examples=60, deadline=None)
@given(pairs, st.integers(0, 5))
def test_sums_of_batches_are_the_sums_of_the_whole(data, cut):
    def counts(part):
        return score([e for e, _ in part], [text_of(p) for _, p in part]).counts

    whole, first, second = counts(data), counts(data[:cut]), counts(data[cut:])
    assert whole == {name: first[name] + second[name] for name in whole}


def test_many_calls_of_one_name_are_paired_exactly():
    """60 calls, each differing from its partner in one of two arguments, in another order."""
    expected = [Call("f", {"a": i, "b": i}) for i in range(60)]
    predicted = [Call("f", {"a": i, "b": -1} if i % 2 else {"a": -1, "b": i}) for i in range(60)]
    random.Random(0).shuffle(predicted)
    report = score([Example("q", TOOLS, tuple(expected))], [text_of(predicted)])
    assert report.argument_accuracy == 0.5
