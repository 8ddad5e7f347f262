"""Attention: who reads whom. Packed examples, masked rows, head groups, positions, one normalised input."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from needlex.model.config import ModelConfig
from needlex.model.decoder import DecoderBlock
from needlex.model.encoder import EncoderBlock
from needlex.nn.attention import Attention, segment_mask
from tests.nn.drawn import drawn, normal

D, N = 16, 9
SEGMENTS = np.array([1, 1, 1, 2, 2, 2, 2, 0, 0])


def attention(kv_heads: int = 2, rope_base: float | None = 10000.0) -> Attention:
    def make(key):
        return Attention(D, 4, kv_heads, std=1.0, out_std=1.0, rope_base=rope_base, epsilon=1e-6, key=key)

    return drawn(make, seed=kv_heads)


def packed(causal: bool) -> jax.Array:
    return segment_mask(jnp.asarray(SEGMENTS), jnp.asarray(SEGMENTS), causal=causal)


KINDS = {"encoder self": (10000.0, False), "decoder self": (10000.0, True), "cross": (None, False)}


# --- masks


@settings(max_examples=50, deadline=None)
@given(
    queries=st.lists(st.integers(0, 3), min_size=7, max_size=7),
    keys=st.lists(st.integers(0, 3), min_size=5, max_size=5),
    causal=st.booleans(),
)
def test_segment_mask(queries, keys, causal):
    expected = [
        [q == k and k != 0 and (j <= i or not causal) for j, k in enumerate(keys)]
        for i, q in enumerate(queries)
    ]
    np.testing.assert_array_equal(segment_mask(jnp.array(queries), jnp.array(keys), causal), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_an_edit_of_the_first_example_does_not_reach_the_second(kind):
    rope_base, causal = KINDS[kind]
    layer, mask = attention(rope_base=rope_base), packed(causal)
    x, memory = normal(0, N, D), normal(1, N, D)
    edited_x, edited_memory = (a.at[:3].set(normal(2, 3, D)).at[7:].set(100.0) for a in (x, memory))
    before = layer(x, memory if kind == "cross" else x, mask)
    after = layer(edited_x, edited_memory if kind == "cross" else edited_x, mask)
    np.testing.assert_array_equal(before[3:7], after[3:7])
    assert (before[:3] != after[:3]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_do_not_reach_another_example(kind):
    rope_base, causal = KINDS[kind]
    layer, mask = attention(rope_base=rope_base), packed(causal)

    def second(x, memory):
        return jnp.sum(layer(x, memory if kind == "cross" else x, mask)[3:7] ** 2)

    grads = jax.grad(second, argnums=(0, 1))(normal(0, N, D), normal(1, N, D))
    for grad in grads if kind == "cross" else grads[:1]:
        assert not grad[:3].any()
        assert not grad[7:].any()
        assert (jnp.abs(grad[3:7]).sum(-1) > 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_a_row_with_nothing_to_read_gets_zeros_and_finite_gradients(kind, dtype):
    rope_base, _ = KINDS[kind]
    layer = jax.tree.map(lambda leaf: leaf.astype(dtype), attention(rope_base=rope_base))
    x, memory = (normal(i, N, D).astype(dtype) for i in range(2))
    for mask in (jnp.ones((N, N), bool).at[4].set(False), jnp.zeros((N, N), bool)):
        lonely = ~mask.any(1)
        assert not layer(x, memory, mask)[lonely].any()

        def loss(layer, x, memory, mask=mask):
            y = layer(x, memory, mask).astype(jnp.float32)
            return jnp.sum(y**2 + y)

        grads = jax.grad(loss, argnums=(0, 1, 2))(layer, x, memory)
        assert all(np.isfinite(np.asarray(leaf, np.float32)).all() for leaf in jax.tree.leaves(grads))
        assert not grads[1][lonely].any()
        assert grads[1][~lonely].any() == (~lonely).any()


# --- heads


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_every_head_of_a_group_reads_the_same_key_value_head(kv_heads):
    layer, x = attention(kv_heads, None), normal(0, N, D)
    q = layer.queries(x, jnp.arange(N)).reshape(4, N, 4)  # groups before members: heads in order
    k, v = layer.keys_values(x, jnp.arange(N))

    def read(k, v):
        scores = np.einsum("htc,hsc->hts", q, k) / 2
        weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
        return np.einsum("hts,hsc->thc", weights, v).reshape(N, -1) @ np.asarray(layer.out.weight)

    got = layer(x, x, jnp.ones((N, N), bool))
    times = 4 // kv_heads
    np.testing.assert_allclose(
        got, read(np.repeat(k, times, 0), np.repeat(v, times, 0)), rtol=1e-4, atol=1e-5
    )
    tiled = read(np.tile(k, (times, 1, 1)), np.tile(v, (times, 1, 1)))
    assert np.allclose(got, tiled, rtol=1e-4, atol=1e-5) == (
        kv_heads != 2
    )  # with 1 or 4 heads both are the same


def test_queries_are_projected_in_the_order_of_the_heads():
    layer, x = attention(2, None), normal(0, N, D)
    plain = layer.query_norm(layer.query(x).reshape(N, 4, 4))
    np.testing.assert_array_equal(layer.queries(x, jnp.arange(N)).reshape(4, N, 4), plain.transpose(1, 0, 2))


def test_heads_that_cannot_be_shared_out_are_refused():
    with pytest.raises(ValueError, match="4 query heads cannot be shared out to 3 key-value heads"):
        attention(3)


def test_length_of_queries_and_keys_does_not_count():
    layer, x = attention(2), normal(0, N, D)
    loud = eqx.tree_at(lambda m: (m.query.weight, m.key.weight), layer, replace_fn=lambda w: 64 * w)
    np.testing.assert_allclose(loud(x, x, packed(True)), layer(x, x, packed(True)), rtol=1e-3, atol=1e-4)


# --- positions


def test_order_of_the_memory_is_nothing_to_cross_attention_and_something_to_self_attention():
    x, memory, full = normal(0, 4, D), normal(1, N, D), jnp.ones((4, N), bool)
    order = np.random.default_rng(0).permutation(N)
    cross, self_ = attention(rope_base=None), attention()
    np.testing.assert_allclose(cross(x, memory[order], full), cross(x, memory, full), rtol=1e-4, atol=1e-5)
    assert not np.allclose(self_(x, memory[order], full), self_(x, memory, full), atol=0.01)
    # Queries without positions: those of cross-attention can come in any order too.
    np.testing.assert_allclose(
        cross(x[::-1], memory, full)[::-1], cross(x, memory, full), rtol=1e-5, atol=1e-6
    )


@settings(max_examples=20, deadline=None)
@given(shift=st.integers(0, 1000))
def test_a_shift_of_all_positions_changes_nothing(shift):
    layer, x = attention(), normal(0, N, D)

    def run(positions):
        return layer.attend(layer.queries(x, positions), *layer.keys_values(x, positions), packed(True))

    np.testing.assert_allclose(run(jnp.arange(N) + shift), run(jnp.arange(N)), rtol=1e-3, atol=1e-3)


# --- blocks

CONFIG = ModelConfig(vocab_size=19, d_model=D, heads=4, kv_heads=2, encoder_layers=1, decoder_layers=1)
HIDDEN = [2, 5, 11, 14]
"""Channels that the norm before the attention blanks out."""


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_keys_and_values_see_the_same_normalised_input_as_queries(kind):
    """Swapping blanked channels is invisible after the norm; to anything that reads raw input it shows."""
    mask, memory = packed(kind == "decoder"), normal(1, N, D)
    if kind == "encoder":
        block = drawn(lambda key: EncoderBlock(CONFIG, key))
        block = eqx.tree_at(lambda b: b.norm.scale, block, block.norm.scale.at[jnp.array(HIDDEN)].set(-1.0))
        run = lambda x: block(x, mask) - x  # noqa: E731
    else:
        block = drawn(lambda key: DecoderBlock(CONFIG, key))
        block = eqx.tree_at(
            lambda b: b.self_norm.scale, block, block.self_norm.scale.at[jnp.array(HIDDEN)].set(-1.0)
        )
        block = eqx.tree_at(lambda b: b.cross_attention.out.weight, block, jnp.zeros((D, D)))
        run = lambda x: block(x, memory, mask, mask) - x  # noqa: E731
    x = normal(0, N, D)
    swapped = x.at[:, jnp.array(HIDDEN)].set(x[:, jnp.array(HIDDEN[::-1])])
    assert (x != swapped).any()
    np.testing.assert_allclose(run(swapped), run(x), rtol=1e-4, atol=1e-5)
    seen = x.at[:, jnp.array([0, 1])].set(x[:, jnp.array([1, 0])])
    assert not np.allclose(run(seen), run(x), atol=0.01)


def test_residuals_are_gated_by_a_sigmoid():
    mask, x = packed(False), normal(0, N, D)
    block = drawn(lambda key: EncoderBlock(CONFIG, key))
    y = block.norm(x)
    for gate in (-100.0, -1.0, 0.0, 2.0, 100.0):
        got = eqx.tree_at(lambda b: b.gate, block, jnp.array(gate))(x, mask)
        expected = x + block.attention(y, y, mask) * float(1 / (1 + np.exp(-gate)))
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
