"""Waveforms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Waveform:
    """Equally spaced samples: `data[i]` was taken at `t0_ns + i * dt`.

    Attributes:
        data: The samples, one dimension.
        t0_ns: Time of the first sample, nanoseconds since 1970 UTC.
        dt: Interval between samples in seconds; 0 if unknown.
        attributes: Named scalars that accompany the samples.
    """

    data: NDArray[Any]
    t0_ns: int = 0
    dt: float = 0.0
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Makes the samples usable wherever NumPy takes an array."""
        if copy:
            return np.array(self.data, dtype=dtype, copy=True)
        return np.asarray(self.data, dtype=dtype)

    def __len__(self) -> int:
        return len(self.data)

    def times(self) -> NDArray[np.datetime64]:
        """Returns the time of each sample, `datetime64[ns]`, UTC."""
        steps = np.round(np.arange(len(self.data)) * (self.dt * 1e9)).astype("timedelta64[ns]")
        return np.datetime64(self.t0_ns, "ns") + steps
