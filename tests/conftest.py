"""Strict settings for every test: 8 CPU devices, shape checks, strict dtype and rank promotion."""

import os
import re

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import pytest
from hypothesis import settings

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# The same examples in every run: a change is judged by what it does, not by luck. HYPOTHESIS_PROFILE=explore draws new ones.
settings.register_profile("needlex", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "needlex"))


def pytest_collection_modifyitems(items):
    # Workers that collect other names do not start, and addresses are the same in one run and others in the next.
    for item in items:
        if re.search(r"\bat 0x[0-9a-f]+", item.nodeid):
            raise pytest.UsageError(f"{item.nodeid} has an address in its name; give its parameters ids")
