"""From pictures to vectors: dense descriptors, codes over a codebook, a spatial pyramid.

Three scikit-learn transformers, to be put in a pipeline:

    picture → DenseSIFT or DHOG → Codebook → SpatialPyramid → one sparse row

one for small images of one shape, which are rows of pixels: :class:`Scattering`, and one that computes the vector of a
pretrained network: :class:`Network`.
"""

from .bags import Bag, Bags
from .codebook import Codebook
from .descriptors import DHOG, DenseSIFT
from .network import Network
from .pipelines import (
    HistogramIntersection,
    PrincipalComponents,
    fisher_features,
    histogram_intersection,
    kspm,
    llc,
    lsc,
    pyramid_features,
    scspm,
)
from .pyramid import SpatialPyramid
from .reading import UnreadableImageError, read_gray, unreadable
from .scattering import Scattering

__all__ = [
    "DHOG",
    "Bag",
    "Bags",
    "Codebook",
    "DenseSIFT",
    "HistogramIntersection",
    "Network",
    "PrincipalComponents",
    "Scattering",
    "SpatialPyramid",
    "UnreadableImageError",
    "fisher_features",
    "histogram_intersection",
    "kspm",
    "llc",
    "lsc",
    "pyramid_features",
    "read_gray",
    "scspm",
    "unreadable",
]
