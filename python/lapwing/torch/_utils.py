"""torch.profiler._utils, by this name too: the module itself, no copy."""

import sys

import torch.profiler._utils as torchs

sys.modules[__name__] = torchs
