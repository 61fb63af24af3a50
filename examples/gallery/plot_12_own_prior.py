"""
Your own prior: atoms of two prices
===================================

A prior says what codes cost. This one makes some atoms cheaper than others, and the
codes prefer them.
"""

# %%
# Four scalar functions describe the prior g. They are plain Python, and the library
# compiles them.
import math
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from sparlow import encode, optimality_gap, plots
from sparlow.priors import Prior


@dataclass(frozen=True)
class CheapFirst(Prior):
    """g(φⱼ) = wⱼ|φⱼ| + l2·φⱼ²; w is small for the first ``n_cheap`` atoms."""

    n_cheap: int
    cheap: float = 0.05
    dear: float = 0.1
    l2: float = 0.05

    def parameters(self, n_atoms):
        """Return the weight of each atom, then l2."""
        return np.append(self.interval(n_atoms)[1], self.l2)

    def interval(self, n_atoms):
        """Return both ends of the subdifferential of g at zero."""
        weights = np.where(np.arange(n_atoms) < self.n_cheap, self.cheap, self.dear)
        return -weights, weights

    @staticmethod
    def value(code, atom, parameters):
        """Return g."""
        return parameters[atom] * abs(code) + parameters[-1] * code * code

    @staticmethod
    def derivative(code, atom, parameters):
        """Return the first derivative of g."""
        return math.copysign(parameters[atom], code) + 2.0 * parameters[-1] * code

    @staticmethod
    def curvature(code, atom, parameters):
        """Return the second derivative of g."""
        return 2.0 * parameters[-1]

    @staticmethod
    def minimiser(target, atom, parameters):
        """Return the code of a single atom."""
        excess = abs(target) - parameters[atom]
        return (
            math.copysign(excess, target) / (1.0 + 2.0 * parameters[-1])
            if excess > 0.0
            else 0.0
        )


# %%
# The atoms are images of the digits 0 to 9. Those of the digits below five come first.
X, y = load_digits(return_X_y=True)
X = normalize(X)
D = np.vstack([X[y == digit][:20] for digit in range(10)])  # (200, 64)
rest = X[y == 8][20:]
fig, axes = plt.subplots(2, 1, figsize=(7.5, 4.4), sharex=True, layout="constrained")
for ax, n_cheap in zip(axes, (200, 100), strict=True):
    prior = CheapFirst(n_cheap)
    codes = encode(rest, D, prior, n_jobs=-1)
    gap = optimality_gap(rest, D, prior, codes).max()
    print(f"largest violation of optimality: {gap:.0e}")
    use = np.asarray(abs(codes).mean(axis=0)).ravel().reshape(10, 20).sum(axis=1)
    ax.bar(
        range(10), use, color=["C0"] * (n_cheap // 20) + ["C1"] * (10 - n_cheap // 20)
    )
    ax.set(ylabel="mean code", xticks=range(10))
axes[0].set_title("images of 8, all atoms of one price: atoms of 8 explain them")
axes[1].set_title("atoms of 5 to 9 twice as dear: atoms of 0 to 4 take over")
axes[1].set_xlabel("digit of the atoms")

# %%
# The same image under both priors.
for n_cheap in (200, 100):
    plots.explanation(rest[0], D, encode(rest[:1], D, CheapFirst(n_cheap)), (8, 8))
plt.show()
