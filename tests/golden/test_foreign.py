"""Needle v1 checkpoints: read without running them, taken over, written back, refused by name."""

from __future__ import annotations

import collections
import copy
import dataclasses
import io
import pickle
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.checkpoint.foreign import TABLE, ForeignError, export_v1, import_v1, read_v1
from needlex.model.config import ModelConfig
from needlex.model.seq2seq import Seq2Seq
from needlex.tree import path_name
from tests.golden.vectors import GOLDEN, needs_golden
from tests.model.oracle import Tree, drawn, v1_config, v1_tree

FULL = v1_config(no_feedforward=False)


def flat(tree: Tree, path: str = "") -> dict[str, Any]:
    if not isinstance(tree, dict):
        return {path: tree}
    return {k: v for key, child in tree.items() for k, v in flat(child, f"{path}/{key}".lstrip("/")).items()}


def half_tree(config: Tree, seed: int = 0, confidence: bool = True) -> Tree:
    """float16 leaves, with the values that conversions lose first: subnormals, -0, the largest."""
    draw = drawn(seed)

    def make(shape):
        leaf = draw(shape).astype(np.float16)
        if leaf.size > 4:
            leaf.reshape(-1)[:4] = [6e-8, -0.0, 65504, -3e-6]
        return leaf

    return v1_tree(config, make, confidence)


def written(path, value: Any, protocol: int = 4):
    path.write_bytes(pickle.dumps(value, protocol))
    return path


def assert_equal_trees(a: Tree, b: Tree) -> None:
    assert flat(a).keys() == flat(b).keys()
    for name, leaf in flat(a).items():
        other = flat(b)[name]
        assert type(other) is np.ndarray
        assert (other.dtype, other.shape) == (leaf.dtype, leaf.shape), name
        assert other.tobytes() == leaf.tobytes(), name


SMALL: dict[str, Any] = {
    "vocab_size": 19, "d_model": 16, "heads": 4, "kv_heads": 2, "encoder_layers": 2, "decoder_layers": 3,
}  # fmt: skip


def small() -> tuple[Seq2Seq, ModelConfig]:
    """A model without feed-forward, with confidence head and all leaves drawn."""
    config = v1_config()
    return import_v1(v1_tree(config, drawn(3), True), config)


# --- the table


def test_table_covers_every_leaf_of_both_sides_once():
    config = ModelConfig(**SMALL, feedforward=True)
    skeleton = eqx.filter_eval_shape(lambda key: Seq2Seq(config, key=key), jax.random.key(0))
    ours = [path_name(path) for path, _ in jax.tree_util.tree_leaves_with_path(skeleton)]
    theirs = flat(half_tree(FULL))
    assert sorted(b for _, b in TABLE) == sorted(ours)
    assert sorted(a for a, _ in TABLE) == sorted(theirs)


@pytest.mark.parametrize("confidence", [False, True])
@pytest.mark.parametrize("ffn", [False, True])
def test_v1_to_ours_to_v1_is_the_identity(tmp_path, ffn, confidence):
    config = v1_config(
        no_feedforward=not ffn, activation="drelu", rope_theta=500.0, dropout_rate=0.1, confidence_mu=1.5
    )
    tree = half_tree(config, confidence=confidence)
    model, ours = import_v1(*read_v1(written(tmp_path / "a.pkl", {"params": tree, "config": config})))
    assert ours == ModelConfig(
        **SMALL, feedforward=ffn, d_ff=10 if ffn else None, activation="drelu", dropout=0.1,
        contrastive_dim=6, confidence=confidence, rope_base=500.0,
    )  # fmt: skip
    assert {leaf.dtype for leaf in jax.tree.leaves(eqx.filter(model, eqx.is_array))} == {jnp.dtype("float32")}
    export_v1(model, ours, tmp_path / "b.pkl", config)
    params, again = read_v1(tmp_path / "b.pkl")
    assert_equal_trees(tree, params)
    assert again == config


def test_ours_to_v1_to_ours_is_the_identity_up_to_float16(tmp_path):
    model, config = small()
    export_v1(model, config, tmp_path / "m.pkl")
    again, same = import_v1(*read_v1(tmp_path / "m.pkl"))
    assert same == config
    rounded = jax.tree.map(lambda x: x.astype(jnp.float16).astype(jnp.float32), model)
    assert eqx.tree_equal(rounded, again)


def test_an_export_is_a_plain_pickle_of_numpy_arrays(tmp_path):
    model, config = small()
    export_v1(model, config, tmp_path / "m.pkl", {"max_seq_len": 99})
    data = (tmp_path / "m.pkl").read_bytes()
    plain = pickle.loads(data)  # our own file
    params, written_config = read_v1(tmp_path / "m.pkl")
    assert_equal_trees(plain["params"], params)
    assert plain["config"] == written_config
    assert written_config["max_seq_len"] == 99
    assert {type(leaf) for leaf in flat(plain["params"]).values()} == {np.ndarray}
    assert {leaf.dtype for leaf in flat(plain["params"]).values()} == {np.dtype("float16")}
    assert data[:2] == b"\x80\x04"


@needs_golden
def test_the_original_checkpoint_survives_bit_for_bit(tmp_path):
    params, config = read_v1(GOLDEN / "needle_v1_tiny.pkl")
    with open(GOLDEN / "needle_v1_tiny.pkl", "rb") as file:
        assert_equal_trees(pickle.load(file)["params"], params)
    model, ours = import_v1(params, config)
    export_v1(model, ours, tmp_path / "again.pkl", config)
    again, same = read_v1(tmp_path / "again.pkl")
    assert_equal_trees(params, again)
    assert same == config


def test_the_model_owns_its_arrays():
    tree = v1_tree(FULL, drawn(0), True)
    model, _ = import_v1(tree, FULL)
    before = np.array(model.embedding.weight)
    tree["embedding"]["embedding"][:] = 7
    np.testing.assert_array_equal(model.embedding.weight, before)


# --- reading


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_layout_and_float_is_read(tmp_path, protocol):
    base = drawn(0)((2, 3, 4))
    leaves = {
        "half": base.astype(np.float16), "single": base, "double": base.astype(np.float64),
        "bfloat": base.astype(ml_dtypes.bfloat16), "big_endian": base.astype(">f4"),
        "integer": np.arange(5, dtype=np.int8),
        "fortran": np.asfortranarray(base), "transposed": base.transpose(1, 0, 2), "strided": base[:, ::2],
        "scalar": np.float16(3.5), "zero_dimensional": np.array(2, np.float32),
    }  # fmt: skip
    params = collections.OrderedDict(part=leaves)
    config = {"d_model": np.int64(4), "lr": np.float32(0.5), "names": ["a", None, True], "pair": (1, 2)}
    read, values = read_v1(written(tmp_path / "x.pkl", {"params": params, "config": config}, protocol))
    for name, leaf in leaves.items():
        got = read["part"][name]
        assert got.shape == leaf.shape
        assert got.dtype == np.asarray(leaf).dtype.newbyteorder("=")
        np.testing.assert_array_equal(got.astype(np.float64), np.asarray(leaf, np.float64))
    assert values == {"d_model": 4, "lr": 0.5, "names": ["a", None, True], "pair": (1, 2)}
    assert type(values["d_model"]) is int


def test_names_of_numpy_1_are_read(tmp_path):
    tree = half_tree(FULL)
    data = pickle.dumps({"params": tree, "config": FULL}, 2)
    assert b"numpy._core.multiarray" in data
    (tmp_path / "old.pkl").write_bytes(data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
    assert_equal_trees(tree, read_v1(tmp_path / "old.pkl")[0])


class Call:
    """Pickles as a call of `function`."""

    def __init__(self, function: Any, *args: Any):
        self.call = function, args

    def __reduce__(self):
        return self.call


RAN: list[str] = []


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (Call(RAN.append, "ran"), "builtins.getattr"),
        (Call(exec, "raise SystemExit"), "builtins.exec"),
        (Call(io.open, "x", "w"), "io.open"),
        (jnp.ones(2), "jax._src.array._reconstruct_array"),
        (np.random.default_rng, "numpy.random.default_rng"),
        (ModelConfig(), "needlex.model.config.ModelConfig"),
    ],
)
@pytest.mark.parametrize("place", ["params", "config"])
def test_whatever_would_run_is_refused_by_name(tmp_path, value, named, place):
    tree: Tree = {"params": {"w": np.ones(2)}, "config": {}}
    tree[place] = {"w": value}
    path = written(tmp_path / "x.pkl", tree, 4)
    with pytest.raises(ForeignError, match=named.replace(".", r"\.")) as caught:
        read_v1(path)
    assert "x.pkl" in str(caught.value)
    assert not RAN


@pytest.mark.parametrize(
    ("leaf", "why"),
    [
        (np.array([{}, 1], object), "dtype 'O8'"),
        (np.array(["text"]), "dtype 'U4'"),
        (np.zeros(2, [("a", "f4")]), "structured"),
        (np.zeros(2, complex), "dtype 'c16'"),
        ([1.0, 2.0], "leaf w is a list"),
        (1.0, "leaf w is a float"),
        (np.ndarray, "leaf w is a type"),
    ],
)
def test_leaves_that_are_no_numbers_are_refused(tmp_path, leaf, why):
    with pytest.raises(ForeignError, match=why):
        read_v1(written(tmp_path / "x.pkl", {"params": {"w": leaf}, "config": {}}))


def cycle() -> Tree:
    tree: Tree = {}
    tree["self"] = tree
    return tree


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"params": {}},
        {"config": {}},
        {"params": [], "config": {}},
        {"params": cycle(), "config": {}},
        {"params": {1: {}}, "config": {}},
    ],
)
def test_pickles_of_something_else_are_refused(tmp_path, value):
    with pytest.raises(ForeignError, match=r"x\.pkl"):
        read_v1(written(tmp_path / "x.pkl", value))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ForeignError, match=r"nowhere\.pkl cannot be opened: No such file"):
        read_v1(tmp_path / "nowhere.pkl")


@pytest.mark.parametrize(
    "name",
    [
        "numpy\ndtype", "numpy\nndarray", "_codecs\nencode", "ml_dtypes\nbfloat16", "collections\nOrderedDict",
        "numpy._core.multiarray\nscalar", "numpy._core.numeric\n_frombuffer",
    ],
)  # fmt: skip
def test_a_pickle_cannot_change_how_the_next_one_is_read(tmp_path, name):
    """BUILD sets attributes of whatever it is given, classes too."""
    leaves = {"w": np.ones((2, 2)), "s": np.float32(2), "b": np.ones(1, ml_dtypes.bfloat16)}
    good = [
        written(tmp_path / f"{p}.pkl", {"params": collections.OrderedDict(leaves), "config": {}}, p)
        for p in (0, 5)
    ]
    for state in (
        "}S'__new__'\nccollections\nOrderedDict\ns",
        "(N}S'__new__'\nccollections\nOrderedDict\nst",
    ):
        (tmp_path / "bad.pkl").write_bytes(f"c{name}\n{state}b.".encode())
        with pytest.raises(ForeignError):
            read_v1(tmp_path / "bad.pkl")
    for path in good:
        assert_equal_trees({k: np.asarray(v) for k, v in leaves.items()}, read_v1(path)[0])


VALID = pickle.dumps(
    {"params": {"a": {"w": np.ones((2, 3), np.float16)}, "b": np.float16(1)}, "config": {"d": 1}}, 4
)


def only_arrays_or_refusal(path, data: bytes) -> None:
    path.write_bytes(data)
    try:
        params, _ = read_v1(path)
    except ForeignError as error:
        assert str(path) in str(error)
        assert error.__cause__ is None
        assert error.__suppress_context__
    else:
        assert {type(leaf) for leaf in flat(params).values()} <= {np.ndarray, dict}


def test_every_truncation_is_refused(tmp_path):
    for length in range(len(VALID)):
        (tmp_path / "x.pkl").write_bytes(VALID[:length])
        with pytest.raises(ForeignError, match="truncated or no Needle v1"):
            read_v1(tmp_path / "x.pkl")


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damage_gives_arrays_or_a_refusal(tmp_path_factory, data):
    damaged = bytearray(VALID)
    for place in data.draw(st.lists(st.integers(0, len(VALID) - 1), min_size=1, max_size=4)):
        damaged[place] = data.draw(st.integers(0, 255))
    only_arrays_or_refusal(tmp_path_factory.getbasetemp() / "damaged.pkl", bytes(damaged))


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=60))
def test_garbage_gives_a_refusal(tmp_path_factory, data):
    only_arrays_or_refusal(tmp_path_factory.getbasetemp() / "garbage.pkl", data)


# --- importing


def broken(path: str, change: Any) -> Tree:
    """A good tree with the leaf at `path` changed, or taken out by None."""
    tree = copy.deepcopy(v1_tree(FULL, drawn(0), True))
    *parents, name = path.split("/")
    node = tree
    for parent in parents:
        node = node.setdefault(parent, {})
    leaf = change(node.get(name))
    node.pop(name, None)
    if leaf is not None:
        node[name] = leaf
    return tree


QUERY = "encoder/layers/EncoderBlock_0/self_attn/q_proj/kernel"


@pytest.mark.parametrize(
    ("path", "change", "why"),
    [
        (
            QUERY,
            lambda x: x[:, :, :8],
            rf"{QUERY} has shape \(2, 16, 8\), but its config makes it \(2, 16, 16\)",
        ),
        (QUERY, lambda x: x[:1], rf"{QUERY} has shape \(1, 16, 16\)"),
        (QUERY, lambda _: None, rf"missing \['{QUERY}'\]"),
        ("decoder/extra/kernel", lambda _: np.ones(2), r"left over \['decoder/extra/kernel'\]"),
        (
            "log_temp",
            lambda _: np.zeros(1, np.float32),
            r"log_temp has shape \(1,\), but its config makes it \(\)",
        ),
        ("log_temp", lambda _: np.array(0), "log_temp has dtype int64"),
        ("log_temp", lambda _: 0.5, "log_temp is a float"),
        ("embedding/embedding", lambda x: x * np.nan, "embedding/embedding has values that are not finite"),
        (
            "speech_subsample/conv1/kernel",
            lambda _: np.ones(2),
            "speech_subsample/conv1/kernel: speech is not supported",
        ),
        ("confidence_out/bias", lambda _: None, r"missing \['confidence_out/bias'\]"),
    ],
)
def test_leaves_that_do_not_fit_are_named(path, change, why):
    with pytest.raises(ForeignError, match=why):
        import_v1(broken(path, change), FULL)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"d_model": None}, "config key d_model is missing"),
        ({"num_heads": "4"}, "config key num_heads is '4', a str"),
        ({"num_heads": 3}, "d_model 16"),
        ({"d_ff": "wide"}, "no model"),
        ({"activation": "relu"}, "activation is 'relu'"),
        ({"pad_token_id": 3}, "pad_token_id is 3"),
        ({"enable_speech": True}, "enable_speech: speech is not supported"),
        ({"no_feedforward": True}, r"left over \['decoder/layers/DecoderBlock_0/FeedForward_0"),
        ({"num_encoder_layers": 5}, r"has shape \(2, .*, but its config makes it \(5, "),
    ],
)
def test_config_that_does_not_fit_is_named(change, why):
    config = {k: v for k, v in (FULL | change).items() if v is not None}
    with pytest.raises(ForeignError, match=why):
        import_v1(v1_tree(FULL, drawn(0), True), config)


def test_config_keys_that_do_not_shape_the_model_are_ignored():
    tree = v1_tree(FULL, drawn(0), True)
    plain = {
        k: v
        for k, v in FULL.items()
        if k not in ("num_memory_slots", "n_mels", "max_seq_len", "no_feedforward")
    }
    extra = FULL | {"confidence_mu": 2.0, "confidence_k": 5.0, "something_new": [1]}
    assert import_v1(tree, plain)[1] == import_v1(tree, extra)[1] == import_v1(tree, FULL)[1]


# --- exporting


def test_export_refusals_name_the_leaf_or_key(tmp_path):
    model, config = small()
    path = tmp_path / "m.pkl"
    big = eqx.tree_at(
        lambda m: m.decoder.layers.self_attention.out.weight,
        model,
        replace_fn=lambda w: w.at[1, 2, 3].set(7e4),
    )
    with pytest.raises(ForeignError, match=r"decoder\.layers\.self_attention\.out\.weight holds 70000"):
        export_v1(big, config, path)
    lost = eqx.tree_at(lambda m: m.contrastive.log_temperature, model, jnp.array(jnp.nan))
    with pytest.raises(ForeignError, match=r"contrastive\.log_temperature holds nan"):
        export_v1(lost, config, path)
    more = eqx.tree_at(lambda m: m.contrastive.out.bias, model, jnp.zeros(6), is_leaf=lambda x: x is None)
    with pytest.raises(ForeignError, match=r"\['contrastive\.out\.bias'\]"):
        export_v1(more, config, path)
    with pytest.raises(
        ForeignError, match=r"embedding\.weight has shape \(19, 16\), but its config makes it \(20, 16\)"
    ):
        export_v1(model, dataclasses.replace(config, vocab_size=20), path)
    with pytest.raises(ForeignError, match="extra config key num_heads is 8, but the model has 4"):
        export_v1(model, config, path, {"num_heads": 8})
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept_unless_told_otherwise(tmp_path):
    model, config = small()
    path = written(tmp_path / "m.pkl", "dear")
    with pytest.raises(FileExistsError, match=r"m\.pkl exists; pass overwrite=True"):
        export_v1(model, config, path)
    assert pickle.loads(path.read_bytes()) == "dear"
    export_v1(model, config, path, overwrite=True)
    assert import_v1(*read_v1(path))[1] == config
    assert [p.name for p in tmp_path.iterdir()] == ["m.pkl"]


def test_globals_of_an_export_are_numpy_only(tmp_path):
    model, config = small()
    export_v1(model, config, tmp_path / "m.pkl")
    named = set()

    class Names(pickle.Unpickler):
        def find_class(self, module_name: str, global_name: str, /) -> Any:
            named.add((module_name, global_name))
            return super().find_class(module_name, global_name)

    with open(tmp_path / "m.pkl", "rb") as file:
        Names(file).load()
    assert named == {("numpy", "ndarray"), ("numpy", "dtype"), ("numpy._core.multiarray", "_reconstruct")}
