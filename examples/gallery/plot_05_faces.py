"""
Faces: who it is, not where the light is
========================================

Light changes a face more than the person does. PCA follows the light. SparLow learns
what tells people apart.

The faces are drawn, so that nothing has to be downloaded. Replace ``faces`` by your
own: rows of pixels, and names.
"""

# %%
# A person has a width of the face, a distance of the eyes, a height of brows and a
# width of the mouth. Each picture has another light, a small shift and noise.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from sparlow import SparLow, plots

SIDE = 28
rng = np.random.default_rng(0)


def blob(x, y, cx, cy, width, height):
    """Return a soft ellipse."""
    return 1 / (1 + np.exp(12 * (np.hypot((x - cx) / width, (y - cy) / height) - 1)))


def face(width, eyes, brows, mouth):
    """Draw one face, under a light of random direction and strength."""
    y, x = np.mgrid[-1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j] + rng.normal(
        0, 0.03, size=(2, 1, 1)
    )
    picture = 0.75 * blob(x, y, 0, 0, width, 0.9)
    for side in (-1, 1):
        picture -= 0.5 * blob(x, y, side * eyes, -0.2, 0.11, 0.08)
        picture -= 0.3 * blob(x, y, side * eyes, brows, 0.17, 0.05)
    picture -= 0.4 * blob(x, y, 0, 0.5, mouth, 0.07) + 0.2 * blob(
        x, y, 0, 0.15, 0.06, 0.15
    )
    angle, strength = rng.uniform(0, 2 * np.pi), rng.uniform(0.2, 0.8)
    light = 1 + strength * (x * np.cos(angle) + y * np.sin(angle))
    return np.clip(
        picture * light + rng.normal(0, 0.06, picture.shape), 0, None
    ).ravel()


people = np.column_stack(
    [
        rng.uniform(*span, size=8)
        for span in ((0.6, 0.8), (0.25, 0.4), (-0.5, -0.35), (0.15, 0.4))
    ]
)
faces = np.array([face(*people[k % 8]) for k in range(400)])
names = np.arange(400) % 8
train, test, y_train, y_test = train_test_split(
    faces, names, test_size=0.5, random_state=0, stratify=names
)
plots.images(faces[:24], (SIDE, SIDE), columns=8).set_title(
    "eight people, three pictures of each"
)

# %%
# Twenty-five pictures of each person are enough to learn from.
model = SparLow("lda", n_components=2, max_iter=0, random_state=0, n_jobs=-1).fit(
    train, y_train
)
fig, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
plots.embedding(PCA(2).fit(train).transform(test), y_test, legend=False, ax=axes[0])
axes[0].set_title("PCA: where the light comes from")
plots.embedding(model.transform(test), y_test, ax=axes[1])
axes[1].set_title("SparLow: who it is")

# %%
# With all seven components, the people are told apart.
full = SparLow("lda", max_iter=0, random_state=0, n_jobs=-1).fit(train, y_train)
print(f"{100 * full.score(test, y_test):.1f} % of the names are right")
# sphinx_gallery_thumbnail_number = 1
plt.show()
