"""The number formats of deep learning: how many bits, and what they can say.

A float is (-1)^sign · 2^(exponent - bias) · 1.mantissa, and with an exponent of 0 the same without
the leading 1 (a subnormal number).
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class NumberFormat:
    """Bits of sign, exponent and mantissa; `stored` bits in memory, of which some may be unread.

    Without an exponent it is a whole number in two's complement, `mantissa` bits and the sign.
    """

    name: str
    exponent: int
    mantissa: int
    stored: int
    source: str

    @property
    def bits(self) -> int:
        """Those that count."""
        return 1 + self.exponent + self.mantissa

    @property
    def bias(self) -> int:
        return 2 ** (self.exponent - 1) - 1

    @property
    def largest(self) -> float:
        if not self.exponent:
            return 2.0**self.mantissa - 1
        return 2.0**self.bias * (2 - 2.0**-self.mantissa)

    @property
    def smallest_normal(self) -> float:
        """Above zero, with all bits of the mantissa; 1 for whole numbers."""
        return 2.0 ** (1 - self.bias) if self.exponent else 1.0

    @property
    def smallest(self) -> float:
        """Above zero: the smallest subnormal number; 1 for whole numbers."""
        return 2.0 ** (1 - self.bias - self.mantissa) if self.exponent else 1.0

    @property
    def step(self) -> float:
        """From 1 to the next number; 1 for whole numbers."""
        return 2.0**-self.mantissa if self.exponent else 1.0


_IEEE = "IEEE 754-2019, section 3.6, table 3.5"
FLOAT32 = NumberFormat("float32", 8, 23, 32, _IEEE)
TF32 = NumberFormat("TF32", 8, 10, 32, "NVIDIA A100 Tensor Core GPU Architecture (2020)")
BFLOAT16 = NumberFormat("bfloat16", 8, 7, 16, "Kalamkar et al. 2019, arXiv:1905.12322")
FLOAT16 = NumberFormat("float16", 5, 10, 16, _IEEE)
INT8 = NumberFormat("int8", 0, 7, 8, "two's complement")
FORMATS = (FLOAT32, TF32, BFLOAT16, FLOAT16, INT8)
