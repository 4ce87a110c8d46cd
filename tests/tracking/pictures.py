"""What is a picture, and not an empty one."""

from pathlib import Path

import matplotlib.image
import numpy as np


def is_a_picture(path: Path) -> bool:
    """Return whether a file has many pixels, of more than 50 colours."""
    pixels = matplotlib.image.imread(path)[..., :3].reshape(-1, 3)
    colours = (pixels * 255).round().astype(np.int64) @ [1, 256, 65536]
    return len(pixels) > 400 * 400 and len(np.unique(colours)) > 50
