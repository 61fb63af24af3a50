"""Loading and splitting of image sets."""

import numpy as np
import pytest

from sparlow import datasets


def test_digits_come_with_scikit_learn():
    digits = datasets.load("digits")
    assert digits.images.shape == (1797, 64)
    assert digits.images.max() == 1
    with pytest.raises(ValueError, match="no standard split"):
        digits.standard_split()


def test_split_takes_so_many_of_each_class_and_leaves_the_rest():
    digits = datasets.load("digits")
    train, test = digits.split(20, 0)
    assert np.all(np.bincount(digits.labels[train]) == 20)
    assert np.array_equal(np.union1d(train, test), np.arange(1797))
    assert not np.intersect1d(train, test).size
    assert np.array_equal(train, digits.split(20, 0)[0])
    assert not np.array_equal(train, digits.split(20, 1)[0])
    with pytest.raises(ValueError, match="leaves none"):
        digits.split(500)


def test_files_are_read_from_the_folder_named(tmp_path, monkeypatch):
    X = np.arange(8 * 256).reshape(8, 256).astype(np.uint16)
    np.savez(tmp_path / "usps.npz", scale=2000, X_train=X[:6], y_train=np.arange(6), X_test=X[6:], y_test=np.arange(2))
    loaded = datasets.load("usps", tmp_path)
    np.testing.assert_allclose(loaded.images, X / 2000)
    assert [len(part) for part in loaded.standard_split()] == [6, 2]
    monkeypatch.setenv("SPARLOW_DATA", str(tmp_path))
    assert datasets.load("usps").shape == (16, 16)
    with pytest.raises(FileNotFoundError, match=r"orl_32x32.npz.*AT&T"):
        datasets.load("orl")
    monkeypatch.delenv("SPARLOW_DATA")
    with pytest.raises(FileNotFoundError, match="Set SPARLOW_DATA"):
        datasets.load("mnist")
    with pytest.raises(ValueError, match="digits, usps"):
        datasets.load("imagenet")
