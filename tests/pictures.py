"""Pictures that several tests need: a photograph, textures in three classes, files in memory."""

import io

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_image

from tests.cases import stripes


def photograph(name="china.jpg"):
    return np.asarray(Image.fromarray(load_sample_image(name)).convert("L"))


def stripes_set(n_each=6):
    pictures = [stripes(kind, 10 * seed + kind) for kind in range(3) for seed in range(n_each)]
    return pictures, np.repeat(np.arange(3), n_each)


def encoded(picture, form="PNG", **options):
    stream = io.BytesIO()
    (picture if isinstance(picture, Image.Image) else Image.fromarray(picture)).save(stream, form, **options)
    return stream.getvalue()
