"""The paper's evidence: specifications, runs, rows and reports."""

from .plan import Entry, Experiment, Setting, Size
from .run import Task, measure, run, tasks
from .specs import EXPERIMENTS, named

__all__ = ["EXPERIMENTS", "Entry", "Experiment", "Setting", "Size", "Task", "measure", "named", "run", "tasks"]
