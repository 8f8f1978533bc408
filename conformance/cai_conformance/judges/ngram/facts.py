"""Facts that were published about the neural n-gram on its own corpus.

Source: the course's chapter 23, measured on its Rust program (glibc 2.36, x86-64). Digests only; the texts are the
    course's.
"""

from __future__ import annotations

from typing import Final

CORPUS_CHECKSUM: Final = "fnv1a64:723b071980ae8a22"

BODY_SHA256: Final = "4b54cfcc5a45b6492f3e713d4964692df24eba26d6fe002ae5ae8a88631cb014"
"""Of the 13 lines of the published trace."""

PARAMETER_SHA256: Final = (
    "c09abdabba948d0f4b24fdcbcfb4fdf0e4625199dc070fce18ea7765251d2f57",
    "a29c9be6a37de6a8064bd161e6a378d6fa1a011c961d31fb8546d7e3cffd3648",
    "05be7cbd7bdb7623da696e188429ba314c041a70e0a79daa6510dc974f0700bb",
    "0010d0f91f4b6b23fbee739fdf84cfd0c3aa126f3e27720dfa50b86105a1cf4e",
    "0082f43d2c403562d7a2d056e95975ae5dea0a91af2c04a38349a87311a41fe2",
    "4500b1855aba0a7e959c85c2029a385d1ddd52e038f8e97188991da6867bb141",
    "d5467bd3816fbdf7c172c31f8075b83a9439f235ef78c71efb47f35824dd90bd",
    "77c2e4cfb826c1cee27704f4fde7f6db579d6212aa060e818f8fca8a59a41edc",
    "74fa049d864668fac9251acd0a6c24ebb592d163b71f7483d082022fbaf31ed9",
    "523379bbbcb6513294cc74c4c4e4173ed3eb7e7df50e0e150214f70fcba37386",
    "031c4a830d25a95b1a2682096822f05387a2d855c6daddbc1dd80547f8a7f6ec",
    "10dd15187847ff7fafce74d36f810a256a46898ecc7c3d6613c1cd68d90262c6",
    "d87f21db670849cc774ed41753ec175966262c89e00e3586eee79df92cb8d67e",
    "dc7ee128b806c4a066ac3a31646a99f8937ef44b98c021551d3b37c6ce0577cb",
    "a4fdc67a065b271e8ed3d0940dcdfb0fcb69f0198237d2fc7acff3927df5e41e",
    "165aa293654ea10234b7caf6a8c32f60335ef52de914b0e95ca0a1af27f8feac",
)
"""Of the little-endian doubles of all parameters in registry order, after steps 0…15, in `libm/1`."""
