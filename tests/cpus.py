"""Which other processors can this one stand in for? `make test-cpus` asks.

python tests/cpus.py            names of the lesser processors, one a line
python tests/cpus.py avx2       the environment that makes torch, MKL and oneDNN run as on one
"""

from __future__ import annotations

import sys

import torch

# From the least to the best. A processor runs the code of every lesser one; the other way round
# the program would end in an illegal instruction.
ENVIRONMENTS = {
    "default": "ATEN_CPU_CAPABILITY=default MKL_CBWR=COMPATIBLE ONEDNN_MAX_CPU_ISA=SSE41",
    "avx2": "ATEN_CPU_CAPABILITY=avx2 MKL_CBWR=AVX2 ONEDNN_MAX_CPU_ISA=AVX2",
    "avx512": "",
}


def lesser() -> list[str]:
    """The processors below this one; none where torch knows a single kind (ARM, POWER)."""
    names = list(ENVIRONMENTS)
    here = torch.backends.cpu.get_cpu_capability().lower()
    if here not in names:
        return []
    return names[: names.index(here)]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(ENVIRONMENTS[sys.argv[1]])
    else:
        print("\n".join(lesser()))
