"""A data set of digits, drawn by this program: shifted, faded and noisy glyphs. The same seed gives the same data."""

import pathlib

import numpy as np

SIDE = 9
CLASSES = 10
_NOISE = 0.2
_GLYPHS = """
.###. ..#.. .###. ##### ...#. ##### ..##. ##### .###. .###.
#...# .##.. #...# ...#. ..##. #.... .#... ....# #...# #...#
#..## ..#.. ....# ..#.. .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. ...#. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# .#... #...# ....#
#...# ..#.. .#... #...# ...#. #...# #...# .#... #...# ...#.
.###. .###. ##### .###. ...#. .###. .###. .#... .###. .##..
"""


def draw(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return images (uint8, [count, SIDE * SIDE]) and their labels (uint8, [count])."""
    rows = [line.split() for line in _GLYPHS.split("\n") if line]
    glyphs = np.array([[[dot == "#" for dot in row[digit]] for row in rows] for digit in range(CLASSES)], np.float32)
    random = np.random.default_rng(seed)
    labels = random.integers(0, CLASSES, count)
    images = random.normal(0, _NOISE, (count, SIDE, SIDE)).astype(np.float32)
    height, width = glyphs.shape[1:]
    tops = random.integers(0, SIDE - height + 1, count)
    lefts = random.integers(0, SIDE - width + 1, count)
    ink = random.uniform(0.6, 1.0, count).astype(np.float32)
    for image, label, top, left, strength in zip(images, labels, tops, lefts, ink, strict=True):
        image[top : top + height, left : left + width] += strength * glyphs[label]
    pixels = (np.clip(images, 0, 1) * 255).astype(np.uint8).reshape(count, -1)
    return pixels, labels.astype(np.uint8)


def save(file: pathlib.Path, *, train: int, test: int, seed: int) -> None:
    """Draw `train` and `test` digits and save them to `file`, as a whole."""
    images, labels = draw(train + test, seed)
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new.npz")
    np.savez(new, x=images[:train], y=labels[:train], x_test=images[train:], y_test=labels[train:])
    new.replace(file)


def load(file: str, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return images (float32 from 0 to 1) and labels (int32) of `part`, train or test."""
    suffix = {"train": "", "test": "_test"}[part]
    with np.load(file) as data:
        return data[f"x{suffix}"].astype(np.float32) / 255, data[f"y{suffix}"].astype(np.int32)
