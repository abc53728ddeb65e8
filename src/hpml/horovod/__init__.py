"""Horovod for this environment: built from its source once, kept as a wheel, and verified.

Its last release (June 2023) is older than the torch and the TensorFlow that it works with here, so
no wheel of it can be downloaded. `install.ensure` is what `./hpml` and `./hpml horovod` call.
"""

VERSION = "0.28.1"
ABOUT = "4 minutes on two cores"  # how long the compiler takes
