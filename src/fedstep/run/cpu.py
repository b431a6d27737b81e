"""The kind of processor: on the same kind the same run has the same bits."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

import torch

CPU_INFO = Path("/proc/cpuinfo")  # of Linux; elsewhere the maker is not told
MAKER = "vendor_id"


@cache
def cpu_kind() -> str:
    """Architecture, the instructions that torch uses, and the maker: `x86_64 AVX2 GenuineIntel`.

    Sums are done in another order with other instructions, and libraries choose by the maker too.
    """
    words = [platform.machine(), torch.backends.cpu.get_cpu_capability()]
    try:
        lines = CPU_INFO.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == MAKER:
            words.append(value.strip())
            break
    return " ".join(words)
