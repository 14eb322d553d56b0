"""The golden models can be imported, here and by specs such as ``python:golden_models:image``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
