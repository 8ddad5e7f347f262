"""Strict settings for every test: 8 CPU devices, shape checks, strict dtype and rank promotion."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
from hypothesis import settings

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# The same examples in every run: a change is judged by what it does, not by luck. HYPOTHESIS_PROFILE=explore draws new ones.
settings.register_profile("needlex", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "needlex"))
