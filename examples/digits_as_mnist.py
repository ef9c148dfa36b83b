"""Writes scikit-learn's digits as the four gzip idx files that MNIST loaders look for, so that nothing is downloaded.

The 8x8 images are enlarged to 28x28. The training images are repeated, each copy moved by up to two pixels, because
loaders and learning rates made for MNIST expect many images. Not for measuring anything: the digits are easier.
"""

import argparse
import gzip
import itertools
import struct
from pathlib import Path

import numpy as np
from scipy import ndimage
from sklearn.datasets import load_digits

TEST = 360  # images kept for the test set, never moved or repeated


def enlarge(images_Nx8x8: np.ndarray) -> np.ndarray:
    """8x8 with values 0 to 16 -> 28x28 with values 0 to 255: three times as large, and MNIST's margin of two pixels."""
    big_Nx24x24 = ndimage.zoom(images_Nx8x8, (1, 3, 3), order=1, grid_mode=True, mode="nearest")
    images_Nx28x28 = np.pad(big_Nx24x24, ((0, 0), (2, 2), (2, 2)))
    return np.clip(images_Nx28x28 * (255 / 16), 0, 255).astype(np.uint8)


def write_idx(path: Path, array: np.ndarray) -> None:
    """The idx format: two zeros, the type (8: unsigned byte), the number of dimensions, the dimensions, the bytes."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    path.write_bytes(gzip.compress(header + array.tobytes(), compresslevel=1, mtime=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, nargs="?", default="/tmp/jax_example_data", help="(%(default)s)")
    parser.add_argument("--copies", type=int, default=5, choices=range(1, 26), metavar="1..25", help="(%(default)s)")
    parser.add_argument("--force", action="store_true", help="replace files that are there, real MNIST perhaps")
    args = parser.parse_args()

    digits = load_digits()
    order_N = np.random.RandomState(0).permutation(len(digits.images))
    images_Nx28x28, labels_N = enlarge(digits.images[order_N]), digits.target[order_N].astype(np.uint8)
    train, train_labels = images_Nx28x28[:-TEST], labels_N[:-TEST]
    moves = sorted(itertools.product(range(-2, 3), repeat=2), key=lambda yx: (abs(yx[0]) + abs(yx[1]), yx))
    train = np.concatenate([np.roll(train, yx, (1, 2)) for yx in moves[: args.copies]])
    train_labels = np.tile(train_labels, args.copies)
    whole = len(train) // 64 * 64  # scripts that shard the whole set over devices want a divisible number
    files = {
        "train-images-idx3-ubyte.gz": train[:whole],
        "train-labels-idx1-ubyte.gz": train_labels[:whole],
        "t10k-images-idx3-ubyte.gz": images_Nx28x28[-TEST:],
        "t10k-labels-idx1-ubyte.gz": labels_N[-TEST:],
    }
    there = [name for name in files if (args.directory / name).exists()]
    if there and not args.force:
        parser.error(f"{args.directory} has {', '.join(there)} already; --force replaces them")
    args.directory.mkdir(parents=True, exist_ok=True)
    for name, array in files.items():
        write_idx(args.directory / name, array)
        print(f"{args.directory / name}: {'x'.join(map(str, array.shape))}")


if __name__ == "__main__":
    main()
