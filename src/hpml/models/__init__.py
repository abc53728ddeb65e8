"""The networks that the workshop trains, and the one that it splits."""

from hpml.models.residual import ResidualNetwork
from hpml.models.vision_transformer import VisionTransformer
from hpml.models.whitening import whitening_filters

__all__ = ["ResidualNetwork", "VisionTransformer", "whitening_filters"]
