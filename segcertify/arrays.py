"""Names for the array types that signatures use."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.integer]
BoolArray = npt.NDArray[np.bool_]
Histogram = npt.NDArray[np.int64]
