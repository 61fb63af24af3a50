"""Pages: one self-contained HTML file each, that opens without a network."""

from .build import report
from .document import Section, document, figure, table

__all__ = ["Section", "document", "figure", "report", "table"]
