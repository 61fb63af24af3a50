"""From pictures to vectors: dense descriptors, codes over a codebook, a spatial pyramid.

Three scikit-learn transformers, to be put in a pipeline:

    picture → DenseSIFT or DHOG → Codebook → SpatialPyramid → one sparse row
"""

from .bags import Bag, Bags
from .codebook import Codebook
from .descriptors import DHOG, DenseSIFT
from .pipelines import HistogramIntersection, histogram_intersection, kspm, llc, lsc, scspm
from .pyramid import SpatialPyramid
from .reading import UnreadableImageError, read_gray, unreadable

__all__ = [
    "DHOG",
    "Bag",
    "Bags",
    "Codebook",
    "DenseSIFT",
    "HistogramIntersection",
    "SpatialPyramid",
    "UnreadableImageError",
    "histogram_intersection",
    "kspm",
    "llc",
    "lsc",
    "read_gray",
    "scspm",
    "unreadable",
]
