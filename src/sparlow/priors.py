"""Sparsity priors g: separable, convex, g(0) = 0.

A prior says how codes are paid for: φ(x) = argmin over φ of ½‖x − φD‖² + Σⱼ g(φⱼ). The solver of
:mod:`sparlow.coding` needs of it just what :class:`Prior` lists.
"""

from __future__ import annotations

import functools
import math
import numbers
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _kernels

Vector = NDArray[np.float64]


class Prior(ABC):
    """The contract of a convex separable prior; subclass it to bring your own.

    Four scalar functions describe g. They are static methods in plain Python arithmetic (``math`` is fine); the
    library compiles them on first use. Each takes a number, the index of the atom it belongs to, and the prior's
    ``parameters`` as one flat array, and returns a number:

    ``value(code, atom, parameters)``
        g(φ) for φ ≠ 0; g(0) = 0 is understood.
    ``derivative(code, atom, parameters)``
        g′(φ) for φ ≠ 0.
    ``curvature(code, atom, parameters)``
        g″(φ) ≥ 0 for φ ≠ 0.
    ``minimiser(target, atom, parameters)``
        argmin over φ of ½(φ − target)² + g(φ): the code of a single unit-norm atom.

    Two methods give the numbers: :meth:`parameters` and :meth:`interval`. A class that is a frozen dataclass of plain
    numbers or tuples is immutable, comparable, printable and can be cloned by scikit-learn, as the two priors here.
    """

    positive: bool = False
    """Whether codes cannot be negative."""

    @staticmethod
    @abstractmethod
    def value(code: float, atom: int, parameters: Vector) -> float:
        """Return g(φ), φ ≠ 0."""

    @staticmethod
    @abstractmethod
    def derivative(code: float, atom: int, parameters: Vector) -> float:
        """Return g′(φ), φ ≠ 0."""

    @staticmethod
    @abstractmethod
    def curvature(code: float, atom: int, parameters: Vector) -> float:
        """Return g″(φ), φ ≠ 0."""

    @staticmethod
    @abstractmethod
    def minimiser(target: float, atom: int, parameters: Vector) -> float:
        """Return the argmin over φ of ½(φ − target)² + g(φ)."""

    @abstractmethod
    def parameters(self, n_atoms: int) -> Vector:
        """Return the numbers that the four functions receive, as one flat array."""

    @abstractmethod
    def interval(self, n_atoms: int) -> tuple[Vector, Vector]:
        """Return ∂g(0) per atom: lower and upper ends, each of shape (n_atoms,); they may be infinite."""

    def constant_curvature(self, n_atoms: int) -> Vector | None:
        """Return g″ per atom where it is the same for all codes but 0, which makes coding faster; else None.

        Then g′(φ) = g″·φ + the end of ∂g(0) on the side of φ, and the four functions above must say the same.
        """
        return None

    def compiled(self) -> tuple[Any, Any, Any, Any]:
        """Return the four functions, compiled: value, derivative, curvature, minimiser."""
        return _compiled(type(self))


@functools.cache
def _compiled(kind: type[Prior]) -> tuple[Any, Any, Any, Any]:
    names = ("value", "derivative", "curvature", "minimiser")
    value, derivative, curvature, minimiser = (_kernels.compile_scalar(getattr(kind, name)) for name in names)
    return value, derivative, curvature, minimiser


def checked_numbers(prior: Prior, n_atoms: int) -> tuple[Vector, Vector, Vector]:
    """Return ``parameters, low, high`` of a prior for ``n_atoms`` atoms, after a check that its parts fit together.

    Compiled functions do not see the end of an array, and a solver cannot tell a wrong prior from a hard problem. So
    the functions are tried here, in Python, on a few numbers for the first and the last atom.
    """
    name = type(prior).__name__
    parameters = np.array(prior.parameters(n_atoms), dtype=np.float64).ravel()
    try:
        low, high = (np.broadcast_to(np.asarray(end, np.float64), (n_atoms,)) for end in prior.interval(n_atoms))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name}.interval must give two arrays of {n_atoms} numbers, one per atom: {error}."
        ) from error
    if not np.all(low <= high):
        raise ValueError(f"{name}.interval: the lower end of ∂g(0) must not be above the upper end, nor be NaN.")
    constant = prior.constant_curvature(n_atoms)
    if constant is not None and np.shape(constant) != (n_atoms,):
        raise ValueError(f"{name}.constant_curvature must give an array of {n_atoms} numbers, one per atom, or None.")
    for atom in {0, n_atoms - 1}:
        if constant is not None:
            bend = prior.curvature(1.0, atom, parameters)
            if not abs(constant[atom] - bend) <= 1e-9 * (abs(bend) + abs(constant[atom])):
                raise ValueError(
                    f"{name}.constant_curvature is {constant[atom]:.3g} for atom {atom}, but curvature is {bend:.3g}."
                )
        end = high[atom] if math.isfinite(high[atom]) else 0.0
        for target in (-1.0 - abs(end), -0.1, 0.9 * end, 0.1, 1.0 + abs(end)):
            _check_parts(prior, name, target, atom, parameters, low[atom], high[atom])
    return parameters, low.copy(), high.copy()


def _check_parts(
    prior: Prior, name: str, target: float, atom: int, parameters: Vector, low: float, high: float
) -> None:
    """Check that the minimiser's code satisfies target − code ∈ ∂g(code), and that g is convex there."""
    try:
        code = prior.minimiser(target, atom, parameters)
        if code == 0:
            fits = low - 1e-9 <= target <= high + 1e-9
        else:
            slope, bend = prior.derivative(code, atom, parameters), prior.curvature(code, atom, parameters)
            rounding = 32 * np.finfo(float).eps * abs(code) * bend  # of the code, as the slope sees it
            off = abs(target - code - slope)
            fits = bool(off <= 1e-6 * (abs(target) + abs(slope)) + rounding) and not low < target < high
            if bend < 0:
                raise ValueError(f"{name}.curvature is negative at {code:.3g}: g must be convex.")
            if fits:
                _check_derivatives(prior, name, code, atom, parameters)
    except (IndexError, TypeError, ZeroDivisionError) as error:
        raise ValueError(f"{name} fails for atom {atom} of the dictionary: {error}.") from error
    if not fits:
        raise ValueError(
            f"{name}: for target {target:.3g}, atom {atom}, minimiser gives {code:.3g}, which is not optimal by "
            "derivative and interval. The three must describe the same g."
        )


def _check_derivatives(prior: Prior, name: str, code: float, atom: int, parameters: Vector) -> None:
    """Check that derivative and curvature belong to value, by Simpson's rule about a code.

    It is rough: it is to catch a wrong formula, not rounding.
    """
    step = 0.1 * abs(code)
    for of, slope_name in (("value", "derivative"), ("derivative", "curvature")):
        try:
            low, high = (getattr(prior, of)(code + sign * step, atom, parameters) for sign in (-1, 1))
            slopes = [getattr(prior, slope_name)(code + sign * step, atom, parameters) for sign in (-1, 0, 1)]
        except (ValueError, OverflowError):  # beyond the codes that the prior allows
            return
        least, most = sorted(map(abs, slopes))[::2]
        if most > 2 * least or min(slopes) < 0 < max(slopes):  # a kink, or a zero: too near for so rough a rule
            continue
        expected = step / 3 * (slopes[0] + 4 * slopes[1] + slopes[2])
        if not abs(high - low - expected) <= 0.3 * abs(expected) + 1e-9 * (abs(high) + abs(low)):
            raise ValueError(
                f"{name}: {slope_name} is {slopes[1]:.3g} at the code {code:.3g} of atom {atom}, but differences of "
                f"{of} give {(high - low) / (2 * step):.3g}. Both must describe the same g."
            )


def _require(prior: Prior, name: str, *, zero_allowed: bool) -> None:
    number = getattr(prior, name)
    good = isinstance(number, numbers.Real) and not isinstance(number, bool) and math.isfinite(number)
    if not (good and (number >= 0 if zero_allowed else number > 0)):
        least = "zero or a positive number" if zero_allowed else "a positive number"
        raise ValueError(f"{type(prior).__name__}: {name} must be {least}, got {number!r}.")


@dataclass(frozen=True)
class ElasticNet(Prior):
    """The elastic net ``g(φ) = l1·|φ| + l2·φ²``, optionally with φ ≥ 0.

    Note l2·φ², not ½·l2·φ²: the curvature is 2·l2. With l2 = 0 (the lasso) codes need not be unique.

    Parameters
    ----------
    l1 : float
        Weight λ₁ ≥ 0 of the absolute value. For samples x all codes vanish from ``l1 = max |D x|`` on.
    l2 : float, default=1e-3
        Weight λ₂ ≥ 0 of the square. It makes codes unique and their derivative stable.
    positive : bool, default=False
        Whether codes must not be negative.

    Examples
    --------
    >>> from sparlow.priors import ElasticNet
    >>> ElasticNet(0.1, l2=0.02)
    ElasticNet(l1=0.1, l2=0.02, positive=False)
    >>> ElasticNet(0.1) == ElasticNet(0.1, 1e-3)
    True

    """

    l1: float
    l2: float = 1e-3
    positive: bool = False

    def __post_init__(self) -> None:
        _require(self, "l1", zero_allowed=True)
        _require(self, "l2", zero_allowed=True)
        if self.l1 == 0 and self.l2 == 0:
            raise ValueError("ElasticNet: l1 and l2 are both zero, so codes are not determined; make one positive.")
        if not isinstance(self.positive, (bool, np.bool_)):
            raise ValueError(f"ElasticNet: positive must be True or False, got {self.positive!r}.")

    @staticmethod
    def value(code: float, atom: int, parameters: Vector) -> float:
        return parameters[0] * abs(code) + parameters[1] * code * code

    @staticmethod
    def derivative(code: float, atom: int, parameters: Vector) -> float:
        return math.copysign(parameters[0], code) + 2.0 * parameters[1] * code

    @staticmethod
    def curvature(code: float, atom: int, parameters: Vector) -> float:
        return 2.0 * parameters[1]

    @staticmethod
    def minimiser(target: float, atom: int, parameters: Vector) -> float:
        # soft(z, λ₁) / (1 + 2λ₂); parameters[2] tells whether negative codes are barred
        excess = (target if parameters[2] > 0.0 else abs(target)) - parameters[0]
        if excess <= 0.0:
            return 0.0
        return math.copysign(excess, target) / (1.0 + 2.0 * parameters[1])

    def parameters(self, n_atoms: int) -> Vector:
        return np.array([self.l1, self.l2, float(self.positive)])

    def interval(self, n_atoms: int) -> tuple[Vector, Vector]:
        return np.full(n_atoms, -np.inf if self.positive else -self.l1), np.full(n_atoms, float(self.l1))

    def constant_curvature(self, n_atoms: int) -> Vector:
        return np.full(n_atoms, 2.0 * self.l2)


@dataclass(frozen=True)
class KLDivergence(Prior):
    """The unnormalised Kullback–Leibler prior g(φ) = λ(φ log(φ/p) − φ) + const, φ ≥ 0, of Bradley and Bagnell.

    g′ = λ log(φ/p) and g″ = λ/φ: codes are drawn to the small mean p and are positive. Taken strictly, no code is ever
    zero. Below ``threshold`` the prior therefore goes on as its tangent, which is convex still and lets a code be
    exactly zero when d·(x − φD) ≤ λ log(threshold/p). With the tiny default this changes nothing but the bookkeeping;
    a threshold above the mean gives truly sparse codes, which are many times faster.

    For codes of either sign use the dictionary [D; −D].

    Parameters
    ----------
    strength : float
        λ > 0.
    mean : float, default=1e-3
        p > 0, the code that the prior prefers.
    threshold : float, default=1e-9
        Codes below it are priced linearly, so that they can be zero; off the support means exactly zero.

    Examples
    --------
    >>> from sparlow.priors import KLDivergence
    >>> KLDivergence(0.05)
    KLDivergence(strength=0.05, mean=0.001, threshold=1e-09)

    """

    strength: float
    mean: float = 1e-3
    threshold: float = 1e-9

    positive = True

    def __post_init__(self) -> None:
        for name in ("strength", "mean", "threshold"):
            _require(self, name, zero_allowed=False)

    @staticmethod
    def value(code: float, atom: int, parameters: Vector) -> float:
        strength, mean, threshold = parameters[0], parameters[1], parameters[2]
        if code < threshold:
            return strength * math.log(threshold / mean) * code
        return strength * (code * math.log(code / mean) - code + threshold)

    @staticmethod
    def derivative(code: float, atom: int, parameters: Vector) -> float:
        return parameters[0] * math.log(max(code, parameters[2]) / parameters[1])

    @staticmethod
    def curvature(code: float, atom: int, parameters: Vector) -> float:
        return parameters[0] / code if code >= parameters[2] else 0.0

    @staticmethod
    def minimiser(target: float, atom: int, parameters: Vector) -> float:
        strength, mean, threshold = parameters[0], parameters[1], parameters[2]
        excess = target - strength * math.log(threshold / mean)
        if excess <= threshold:
            return max(excess, 0.0)
        # φ + λ log(φ/p) = z: with φ = λω this is ω + log ω = z/λ + log(p/λ)
        return strength * _kernels.wright_omega(target / strength + math.log(mean / strength))

    def parameters(self, n_atoms: int) -> Vector:
        return np.array([self.strength, self.mean, self.threshold], dtype=np.float64)

    def interval(self, n_atoms: int) -> tuple[Vector, Vector]:
        upper = self.strength * math.log(self.threshold / self.mean)
        return np.full(n_atoms, -np.inf), np.full(n_atoms, upper)
