"""A prior of one's own: an ℓ₁ weight for each atom and a smooth part, without touching the library.

    g(φⱼ) = wⱼ|φⱼ| + s·(√(1 + φⱼ²) − 1)

Atoms with a small weight are preferred. The four scalar functions are plain Python; the coordinate minimiser solves
φ + w·sign φ + s·φ/√(1 + φ²) = z by Newton's method.
"""

import math
from dataclasses import dataclass

import numpy as np

from sparlow import encode, optimality_gap
from sparlow.priors import Prior


@dataclass(frozen=True)
class WeightedSmoothL1(Prior):
    """g(φⱼ) = wⱼ|φⱼ| + s·(√(1 + φⱼ²) − 1)."""

    weights: tuple[float, ...]
    smooth: float = 0.1

    def parameters(self, n_atoms):
        """The weight of each atom, then s."""
        if len(self.weights) != n_atoms:
            raise ValueError(f"{len(self.weights)} weights for {n_atoms} atoms.")
        return np.array([*self.weights, self.smooth])

    def interval(self, n_atoms):
        """∂g(0) = [−wⱼ, wⱼ]."""
        weights = np.array(self.weights)
        return -weights, weights

    @staticmethod
    def value(code, atom, parameters):
        """g(φ)."""
        return parameters[atom] * abs(code) + parameters[-1] * (math.sqrt(1.0 + code * code) - 1.0)

    @staticmethod
    def derivative(code, atom, parameters):
        """g′(φ)."""
        return math.copysign(parameters[atom], code) + parameters[-1] * code / math.sqrt(1.0 + code * code)

    @staticmethod
    def curvature(code, atom, parameters):
        """g″(φ)."""
        return parameters[-1] / math.sqrt(1.0 + code * code) ** 3

    @staticmethod
    def minimiser(target, atom, parameters):
        """Argmin of ½(φ − z)² + g(φ)."""
        excess = abs(target) - parameters[atom]
        if excess <= 0.0:
            return 0.0
        code = excess
        for _ in range(50):
            root = math.sqrt(1.0 + code * code)
            step = (code + parameters[-1] * code / root - excess) / (1.0 + parameters[-1] / root**3)
            code -= step
            if abs(step) <= 1e-16 * code:
                break
        return math.copysign(code, target)


def main():
    rng = np.random.default_rng(0)
    D = rng.standard_normal((40, 20))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    X = rng.standard_normal((200, 20))
    prior = WeightedSmoothL1(weights=(0.1,) * 20 + (0.5,) * 20)
    codes = encode(X, D, prior)
    used = np.diff(codes.tocsc().indptr)
    print(f"largest optimality gap {optimality_gap(X, D, prior, codes).max():.0e}")
    print(f"uses per atom: {used[:20].mean():.0f} where the weight is 0.1, {used[20:].mean():.0f} where it is 0.5")


if __name__ == "__main__":
    main()
