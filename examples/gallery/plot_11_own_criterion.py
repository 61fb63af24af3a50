"""
Your own criterion: some confusions cost more
=============================================

Some confusions cost more than others. A criterion of twenty lines keeps chosen classes
apart first.
"""

# %%
# A criterion binds samples and labels to two structures: what should be apart, and what
# together. Here the means of chosen pairs of classes count more.
from dataclasses import dataclass
from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sparlow import SparLow, plots
from sparlow.criteria import LDA, Criterion, Quotient
from sparlow.graphs import between_classes, within_classes


@dataclass(frozen=True)
class CostlyPairs(Criterion):
    """Class means apart, most of all those of the chosen pairs; classes tight."""

    pairs: tuple[tuple[int, int], ...] = ()
    cost: float = 20.0
    supervision = "full"

    def bind(self, X, y=None, n_jobs=None):
        """Return the quotient of these labels."""
        weights = np.ones((y.max() + 1, y.max() + 1))
        for a, b in self.pairs:
            weights[a, b] = weights[b, a] = self.cost
        return Quotient(between_classes(y, weights), within_classes(y))

    def most_components(self, n_features, y):
        """Return classes − 1: more directions cannot separate the means."""
        return min(n_features, y.max())

    def usual_components(self, n_features, y):
        """Return the number of components if the user names none."""
        return self.most_components(n_features, y)


# %%
# In three dimensions ten digits cannot all be far apart. The criterion decides which
# are. The first two are drawn.
X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, random_state=0, stratify=y
)
alike = (3, 5, 8, 9)
shown = np.where(np.isin(y_test, alike), y_test, -1)  # the others are drawn in grey
fig, axes = plt.subplots(1, 2, figsize=(8.6, 3.9), layout="constrained")
for ax, criterion in zip(
    axes, (LDA(), CostlyPairs(tuple(combinations(alike, 2)))), strict=True
):
    model = SparLow(
        criterion, n_components=3, n_atoms=100, max_iter=0, random_state=0
    ).fit(X_train, y_train)
    share = model.score(X_test[shown >= 0], y_test[shown >= 0])
    plots.embedding(model.transform(X_test)[:, :2], shown, legend=ax is axes[1], ax=ax)
    ax.set_title(f"{type(criterion).__name__}: {100 * share:.0f} % of 3, 5, 8, 9")
axes[1].get_legend().get_texts()[0].set_text("others")
plt.show()
