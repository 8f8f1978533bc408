"""What the course publishes about its chapter-23 run, as literals, and the marks of tests that need more than those.

Merges, document lengths, losses and parameter digests (course, chapters 3, 5, 21 and 23). The corpus itself is not part
of this repository: tests that need its text skip where it does not lie beside the checkout.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import pytest

from cai_reference.arithmetic.selftest import c_library_selftest
from cai_reference.text.batches import EncodedDocument, Epoch, Windowing

COURSE: Final = Path(__file__).resolve().parents[2] / "shared" / "data" / "course"
CORPUS: Final = COURSE / "tiny-bilingual-corpus.json"
SPLITS: Final = COURSE / "splits.json"

needs_corpus = pytest.mark.skipif(
    not (CORPUS.is_file() and SPLITS.is_file()), reason="the course's corpus does not lie beside this checkout"
)
needs_c_library = pytest.mark.skipif(
    not c_library_selftest().agrees_on(("exp", "log1p")),
    reason="this C library rounds exp or log1p otherwise than the one behind the published digits",
)

MERGES: Final = ((32, 208), (208, 176), (209, 130), (208, 181), (208, 190), (208, 184), (209, 128), (101, 32))
MERGE_COUNTS: Final = (81, 62, 57, 56, 49, 38, 36, 35)
TRAIN_LENGTHS: Final = (182, 234, 191, 290, 197, 295, 189, 274)
VALIDATION_LENGTHS: Final = (189, 282)

FIRST_GRADIENT_L1: Final = (
    0.02098277407669027,
    0.0020791565274765698,
    0.002420102184397668,
    0.002044255453190607,
    0.019547509062209176,
)
BATCH_LOSSES: Final = (
    5.583387207226902,
    5.583328793946822,
    5.583348140185505,
    5.583261041931571,
    5.5826434132424785,
    5.582491992597834,
    5.5819225694763706,
    5.580957391977197,
    5.57988957170994,
    5.5781618992239155,
    5.578557963875745,
    5.577680056692024,
    5.574722163157261,
    5.5685572229612585,
    5.558569890442942,
)
TRAIN_LOSSES: Final = (
    5.583505393551382,
    5.583392140300066,
    5.583234225067459,
    5.583020915377896,
    5.582747816261728,
    5.582361508046059,
    5.581830151417641,
    5.581098969415871,
    5.580105983359076,
    5.578753729367255,
    5.57698342568656,
    5.574640038309828,
    5.571561801142113,
    5.567555365769986,
    5.56239165101135,
    5.555850115396947,
)
VALIDATION_LOSSES: Final = (
    5.583482014066621,
    5.58339214755349,
    5.583254810281815,
    5.5830642031761,
    5.582815308936182,
    5.582458460951106,
    5.581969971791248,
    5.581292814746453,
    5.580365456282052,
    5.579095960369425,
    5.577428977341657,
    5.575210966938909,
    5.572297911095711,
    5.568496568134107,
    5.563592902117676,
    5.557362072253466,
)
PARAMETER_DIGESTS: Final = (
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


@cache
def training_shape() -> Epoch:
    """Return an epoch with the published document lengths and counted tokens, which fixes every plan over it."""
    documents = tuple(
        EncodedDocument(f"d-{number}", "train", tuple(range(length))) for number, length in enumerate(TRAIN_LENGTHS)
    )
    return Epoch("train", documents, Windowing(context=2))
