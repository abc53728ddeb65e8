"""The network that the workshop trains."""

from hpml.models.residual import ResidualNetwork
from hpml.models.whitening import whitening_filters

__all__ = ["ResidualNetwork", "whitening_filters"]
