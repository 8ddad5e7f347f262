"""Device mesh and where arrays live on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

LOGICAL_AXES = {"batch": "data"}
"""Logical axis -> mesh axis. Parameters have no entry: they are replicated."""


@dataclass(frozen=True)
class MeshConfig:
    """Shape of the device mesh."""

    data: int = 1
    """Devices the batch is split over; -1 takes all there are."""

    def __post_init__(self):
        if self.data < 1 and self.data != -1:
            raise ValueError(f"mesh.data is {self.data}; give a number of devices, or -1 for all")


def build_mesh(config: MeshConfig) -> Mesh:
    """Mesh with automatic axes (explicit ones, the default of jax, break gathers and optax).

    **Raises:** `ValueError` when there are fewer devices than asked for.
    """
    devices = jax.devices()
    data = len(devices) if config.data == -1 else config.data
    if data > len(devices):
        raise ValueError(
            f"mesh.data is {data} but jax sees {len(devices)} device(s); lower it, or emulate more on CPU with "
            f"--devices {data}"
        )
    return Mesh(np.array(devices[:data]), ("data",), axis_types=(AxisType.Auto,))


def replicated(mesh: Mesh) -> NamedSharding:
    """Sharding of parameters and optimizer state: a copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


def rows(mesh: Mesh, leading: int = 0) -> NamedSharding:
    """Sharding of arrays whose axis `leading` is the batch."""
    return NamedSharding(mesh, PartitionSpec(*[None] * leading, LOGICAL_AXES["batch"]))


def put_batch(batch: Any, mesh: Mesh, leading: int = 0) -> Any:
    """Numpy batch of this process onto the mesh; processes hold consecutive parts of the global batch."""
    sharding = rows(mesh, leading)
    return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, x), batch)
