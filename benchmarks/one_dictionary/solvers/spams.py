"""LARS in C++ by SPAMS, with the Gram matrix of the atoms."""

import numpy as np
import spams
from benchopt import BaseSolver


class Solver(BaseSolver):
    """``spams.lasso`` in mode 2."""

    name = "spams"
    sampling_strategy = "run_once"
    requirements = ["pip::spams-bin"]  # noqa: RUF012

    def set_objective(self, X, D, l1, l2):
        """Lay samples and atoms out as columns."""
        self.X, self.D, self.weights = (
            np.asfortranarray(X.T),
            np.asfortranarray(D.T),
            {"lambda1": l1, "lambda2": 2 * l2},
        )

    def run(self, _):
        """Code all samples."""
        self.codes = spams.lasso(self.X, D=self.D, mode=2, numThreads=1, **self.weights)

    def get_result(self):
        """Return the codes as rows."""
        return {"codes": self.codes.T}
