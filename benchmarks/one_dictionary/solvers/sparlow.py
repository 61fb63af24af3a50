"""Exact codes of this library."""

from benchopt import BaseSolver

from sparlow import Coder
from sparlow.priors import ElasticNet


class Solver(BaseSolver):
    """One line search after another on a support that grows."""

    name = "sparlow"
    sampling_strategy = "run_once"

    def set_objective(self, X, D, l1, l2):
        """Bind the dictionary, and compile."""
        self.X, self.coder = X, Coder(D, ElasticNet(l1, l2))
        self.coder.encode(X[:10])

    def run(self, _):
        """Code all samples."""
        self.codes = self.coder.encode(self.X)

    def get_result(self):
        """Return the codes."""
        return {"codes": self.codes}
