"""Batch OMP of this library: a fixed number of nonzeros."""

from benchopt import BaseSolver

from sparlow.dictionaries import OMP


class Solver(BaseSolver):
    """Orthogonal matching pursuit with the Gram matrix of the atoms."""

    name = "omp"
    sampling_strategy = "run_once"
    parameters = {"n_nonzero": [4, 8]}  # noqa: RUF012

    def set_objective(self, X, D, l1, l2):
        """Bind the dictionary, and compile."""
        self.X, self.coder = X, OMP(D, self.n_nonzero)
        self.coder.encode(X[:10])

    def run(self, _):
        """Code all samples."""
        self.codes = self.coder.encode(self.X)

    def get_result(self):
        """Return the codes."""
        return {"codes": self.codes}
