"""Legend of dimension names and the array aliases that more than one room uses.

| name | dimension |
| --- | --- |
| b | batch (rows) |
| t | query positions (decoder or self-attention) |
| s | key positions (encoder memory or self-attention) |
| e | encoder positions |
| d | model width |
| h, k, r | query heads, key-value heads, query heads a key-value head (h = k r) |
| c | channels of a head |
| f | feed-forward width |
| v | vocabulary |
| l | layers of a stack |
"""

from __future__ import annotations

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

Tokens = Int[Array, "t"]
"""Token ids of one row; 0 is padding."""
Segments = Int[Array, "t"]
"""Which packed example each position belongs to, from 1; 0 is padding."""
Key = PRNGKeyArray
Mask = Bool[Array, "t s"]
"""True where query position t may read key position s."""
Hidden = Float[Array, "t d"]
