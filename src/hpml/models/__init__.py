"""The network that the workshop trains."""

from hpml.models.residual import ResidualNetwork, whitening_filters

__all__ = ["ResidualNetwork", "whitening_filters"]
