"""Image sets: labeled pictures to train on, from scikit-learn's wheel, files in MNIST's format, or a download.

MNIST's format (IDX): two zero bytes, 8 for bytes as elements, the number of dimensions, each size as a big-endian
int32, then the elements. FashionMNIST, KMNIST and MNIST itself come as four such files, compressed or not.
"""

import gzip
import hashlib
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rankzero.errors import UserError
from rankzero.learn.data.downloads import downloaded, has_digest

FASHION_MNIST_URL = "https://fashion-mnist.s3.eu-central-1.amazonaws.com/"
FASHION_MNIST_SHA256 = {
    "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}
CLOTHES = ("T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
DIGITS_TO_VALIDATE = 360  # of the 1,797 scans: a fifth


@dataclass(frozen=True)
class ImageSet:
    """Pictures and their classes.

    Images are uint8 [N, C, H, W], labels int64 [N] with `classes[label]` as the label's name. No picture is in both
    parts. `sha256` identifies all four tensors.
    """

    name: str
    classes: tuple[str, ...]
    train_images: Tensor
    train_labels: Tensor
    val_images: Tensor
    val_labels: Tensor
    sha256: str

    def summary(self) -> str:
        """Returns name and sizes in words."""
        channels, height, width = self.train_images.shape[1:]
        sizes = f"{len(self.train_images):,} pictures to train on, {len(self.val_images):,} to validate"
        return f"{self.name}: {sizes}, {channels} x {height} x {width} pixels, {len(self.classes)} classes"


def load_images(spec: str) -> ImageSet:
    """Returns the image set that `spec` names.

    `digits`: 1,797 scans of digits, 8 x 8 pixels, from scikit-learn's wheel, always available. `fashion-mnist`: 70,000
    pictures of clothes, 28 x 28 pixels, downloaded once, the digests of its four files checked. Any other `spec` is a
    folder with four files in MNIST's format. UserError for an unusable set.
    """
    if spec == "digits":
        return _digits()
    if spec == "fashion-mnist":
        files = {name: _downloaded_file(name) for name in FASHION_MNIST_SHA256}
        return _image_set(spec, CLOTHES, *(idx_array(content, name) for name, content in files.items()))
    return _folder(Path(spec))


def idx_array(content: bytes, name: str) -> np.ndarray:
    """Returns the uint8 array that `content`, a file in MNIST's format, holds; a gzip file is decompressed first.

    UserError, which names the file `name`, where the content is damaged or in another format.
    """
    try:
        content = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
    except (OSError, EOFError, ValueError) as error:
        raise UserError(f"{name} is damaged ({error}): fetch it again.") from None
    if len(content) < 4 or content[:3] != b"\0\0\x08":
        raise UserError(f"{name} is not in MNIST's format (it begins with {content[:4].hex(' ')}): name another.")
    dimensions = content[3]
    sizes = np.frombuffer(content[4 : 4 + 4 * dimensions], dtype=">i4").tolist()
    values = np.frombuffer(content, dtype=np.uint8, offset=min(len(content), 4 + 4 * dimensions))
    if len(sizes) < dimensions or len(values) != np.prod(sizes, dtype=np.int64):
        expected = " x ".join(map(str, sizes))
        raise UserError(f"{name} is damaged: {len(values):,} bytes follow its header, which says {expected}.")
    return values.reshape(sizes)


def _digits() -> ImageSet:
    # The file in scikit-learn's wheel: importing scikit-learn for it takes seconds.
    package = find_spec("sklearn")
    if package is None or not package.submodule_search_locations:
        raise UserError(
            "the digits come from scikit-learn, which is not installed: install it, or name a folder of pictures."
        )
    file = Path(package.submodule_search_locations[0], "datasets", "data", "digits.csv.gz")
    try:
        rows = np.loadtxt(gzip.decompress(file.read_bytes()).decode().splitlines(), delimiter=",")  # [1797, 65]
    except (OSError, EOFError, ValueError) as error:
        raise UserError(f"the digits in {file} cannot be read ({error}): install scikit-learn again.") from None
    scans, labels = rows[:, :-1].reshape(-1, 8, 8), rows[:, -1].astype(np.int64)
    images = np.round(scans * (255 / 16)).astype(np.uint8)  # a scan counts 0 to 16 dark pixels of 4 x 4
    # In an order that mixes the writers, of whom each wrote a run of neighboring scans.
    order = sorted(range(len(images)), key=lambda number: hashlib.sha256(str(number).encode()).digest())
    train, val = order[DIGITS_TO_VALIDATE:], order[:DIGITS_TO_VALIDATE]
    parts = images[train], labels[train], images[val], labels[val]
    return _image_set("digits", tuple("0123456789"), *parts)


def _downloaded_file(name: str) -> bytes:
    return downloaded(
        FASHION_MNIST_URL + name,
        FASHION_MNIST_SHA256[name],
        name=f"FashionMNIST's {name}",
        cached=f"fashion-mnist/{name}",
        fetch_it=f"fetch the four files of {FASHION_MNIST_URL} where there is a network and name their folder "
        "in place of fashion-mnist, or take 'digits'.",
        copy_of_yours="name a folder with copies that you trust in place of fashion-mnist, or take 'digits'.",
    )


def _folder(folder: Path) -> ImageSet:
    if not folder.is_dir():
        raise UserError(
            f"folder {folder} does not exist: pass a folder with four files in MNIST's format, 'digits' or "
            "'fashion-mnist'."
        )
    arrays, is_fashion = [], True
    for name, digest in FASHION_MNIST_SHA256.items():
        stem = name.removesuffix(".gz")
        names = (name, stem, stem.replace("-idx", ".idx"))  # as published, decompressed, renamed by some tools
        file = next((folder / known for known in names if (folder / known).is_file()), None)
        if file is None:
            raise UserError(f"folder {folder} has no {name}: it needs the four files of a set in MNIST's format.")
        try:
            content = file.read_bytes()
        except OSError as error:
            raise UserError(f"{file} cannot be read ({error.strerror}): check its permissions.") from None
        arrays.append(idx_array(content, str(file)))
        is_fashion = is_fashion and has_digest(content, digest)
    largest = max(int(labels.max(initial=0)) for labels in arrays[1::2])
    classes = CLOTHES if is_fashion else tuple(str(number) for number in range(largest + 1))
    return _image_set(os.path.abspath(folder), classes, *arrays)


def _image_set(name: str, classes: tuple[str, ...], *arrays: np.ndarray) -> ImageSet:
    """Returns the set of the four arrays: images and labels to train on, images and labels to validate."""
    train, val = arrays[:2], arrays[2:]
    for part, (images, labels) in (("training", train), ("validation", val)):
        if images.ndim != 3 or labels.ndim != 1 or not len(images):
            raise UserError(f"{name} has no {part} pictures [N, height, width] with labels [N]: name another folder.")
        if len(images) != len(labels):
            raise UserError(f"{name} has {len(images):,} {part} pictures and {len(labels):,} labels: fetch them again.")
    if arrays[0].shape[1:] != arrays[2].shape[1:]:
        raise UserError(f"{name} has pictures of two sizes, {arrays[0].shape[1:]} and {arrays[2].shape[1:]}.")
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    x, val_x = (torch.from_numpy(array.copy()).unsqueeze(1) for array in (train[0], val[0]))  # [N, 1, H, W]
    y, val_y = (torch.from_numpy(array.astype(np.int64)) for array in (train[1], val[1]))
    return ImageSet(name, classes, x, y, val_x, val_y, digest.hexdigest())
