"""Image sets: the digits, files in MNIST's format, downloads with digests, and damaged files."""

import gzip
import hashlib
import io
import struct
import urllib.error
from pathlib import Path

import numpy as np
import pytest
import torch

from rankzero.errors import UserError
from rankzero.learn.data import image_sets
from rankzero.learn.data.image_sets import FASHION_MNIST_SHA256, idx_array, load_images

NAMES = list(FASHION_MNIST_SHA256)


def idx(array: np.ndarray) -> bytes:
    """Returns `array` as a file in MNIST's format."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}i", *array.shape) + array.tobytes()


def write_set(folder: Path, *, compress: bool = True, height: int = 5) -> dict[str, np.ndarray]:
    """Writes a set of 7 and 3 random pictures into `folder`; returns its arrays by file name."""
    random = np.random.default_rng(0)
    arrays = {}
    for name in NAMES:
        number = 7 if name.startswith("train") else 3
        shape = (number, height, 4) if "images" in name else (number,)
        arrays[name] = random.integers(0, 256 if "images" in name else 10, shape, dtype=np.uint8)
        path = folder / (name if compress else name.removesuffix(".gz"))
        path.write_bytes(gzip.compress(idx(arrays[name])) if compress else idx(arrays[name]))
    return arrays


def test_the_digits_are_1797_scans_in_two_parts_that_share_none() -> None:
    digits = load_images("digits")
    assert (len(digits.train_images), len(digits.val_images)) == (1437, 360)
    assert digits.train_images.shape[1:] == (1, 8, 8)
    assert digits.train_images.dtype == torch.uint8
    assert digits.train_images.max() == 255
    assert sorted(set(digits.val_labels.tolist())) == list(range(10))
    seen = {bytes(image.numpy().tobytes()) for image in digits.train_images}
    assert not any(bytes(image.numpy().tobytes()) in seen for image in digits.val_images)


@pytest.mark.parametrize("compress", [True, False])
def test_a_folder_of_four_files_gives_their_pictures_and_labels(tmp_path: Path, compress: bool) -> None:
    arrays = write_set(tmp_path, compress=compress)
    images = load_images(str(tmp_path))
    assert torch.equal(images.train_images[:, 0], torch.from_numpy(arrays[NAMES[0]]))
    assert images.train_labels.tolist() == arrays[NAMES[1]].tolist()
    assert torch.equal(images.val_images[:, 0], torch.from_numpy(arrays[NAMES[2]]))
    assert images.val_labels.dtype == torch.int64
    assert "7 pictures to train on, 3 to validate, 1 x 5 x 4 pixels" in images.summary()


def test_the_digest_follows_the_pictures(tmp_path: Path) -> None:
    for folder, height in (("a", 5), ("b", 5), ("c", 6)):
        (tmp_path / folder).mkdir()
        write_set(tmp_path / folder, height=height, compress=folder == "a")
    a, b, c = (load_images(str(tmp_path / folder)).sha256 for folder in "abc")
    assert a == b != c


def test_a_missing_folder_and_a_missing_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="none does not exist: pass a folder with four files in MNIST's format, 'digits' or"
    ):
        load_images(str(tmp_path / "none"))
    write_set(tmp_path)
    (tmp_path / NAMES[2]).unlink()
    with pytest.raises(UserError, match=f"has no {NAMES[2]}"):
        load_images(str(tmp_path))


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    write_set(tmp_path)
    (tmp_path / NAMES[1]).write_bytes(idx(np.zeros(6, dtype=np.uint8)))
    with pytest.raises(UserError, match="7 training pictures and 6 labels"):
        load_images(str(tmp_path))
    write_set(tmp_path)
    (tmp_path / NAMES[2]).write_bytes(idx(np.zeros((3, 9, 9), dtype=np.uint8)))
    with pytest.raises(UserError, match="two sizes"):
        load_images(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not in MNIST's format"),
        (b"<html>", "not in MNIST's format"),
        (b"\x1f\x8b broken", "damaged"),
        (gzip.compress(b"\0\0\x08\x01\0\0\0\x05abcde", mtime=0)[:-9], "damaged"),
        (b"\0\0\x08\x03\0\0\0\x05", "damaged"),
        (b"\0\0\x08\x01\0\0\0\x05abc", "3 bytes follow its header, which says 5"),
        (b"\0\0\x08\x01\xff\xff\xff\xffabc", "damaged"),
    ],
    ids=["empty", "a page", "no gzip", "gzip cut off", "header cut off", "elements missing", "negative size"],
)
def test_a_damaged_file_is_named_in_one_sentence(content: bytes, message: str) -> None:
    with pytest.raises(UserError, match=f"t10k.*{message}"):
        idx_array(content, "t10k")


def test_fashion_mnist_is_downloaded_once_and_refused_with_another_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_set(tmp_path)
    requests: list[str] = []

    def answer(url: str, timeout: float) -> io.BytesIO:
        requests.append(url)
        return io.BytesIO((tmp_path / url.rsplit("/", 1)[1]).read_bytes())

    monkeypatch.setenv("RANKZERO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("urllib.request.urlopen", answer)
    with pytest.raises(UserError, match="SHA-256 differs"):
        load_images("fashion-mnist")
    assert not (tmp_path / "cache").exists()
    digests = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in NAMES}
    monkeypatch.setattr(image_sets, "FASHION_MNIST_SHA256", digests)
    first, second = load_images("fashion-mnist"), load_images("fashion-mnist")
    assert first.sha256 == second.sha256
    assert first.classes[9] == "ankle boot"
    assert len(requests) == 1 + 4


def test_without_a_network_the_sentence_names_the_files_and_another_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(url: str, timeout: float) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setenv("RANKZERO_CACHE", str(tmp_path))
    monkeypatch.setattr("urllib.request.urlopen", fail)
    with pytest.raises(UserError, match=r"no route to host.*folder in place of fashion-mnist, or take 'digits'"):
        load_images("fashion-mnist")
