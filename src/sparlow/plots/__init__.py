"""Pictures of what was computed: arrays in, matplotlib axes out; nothing is computed here."""

from .pictures import curves, embedding, explanation, images

__all__ = ["curves", "embedding", "explanation", "images"]
