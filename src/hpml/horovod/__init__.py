"""Horovod for this environment: built from its source once, kept as a wheel, and verified.

Its last release (June 2023) is older than this torch and TensorFlow, so there is no wheel to
download. `./hpml` and `./hpml horovod` call `install.ensure`.
"""

VERSION = "0.28.1"
ABOUT = "4 minutes on two cores"  # how long the compiler takes
