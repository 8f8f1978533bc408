"""Does the page on errors name what exists, all of it, and every variant of the course?"""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import cai_course
import cai_neural_api
import cai_reference
from cai_reference.errors import CaiReferenceError

PACKAGES = (cai_reference, cai_neural_api, cai_course)
OURS = tuple(f"{package.__name__}." for package in PACKAGES)

PAGE = Path(__file__).resolve().parents[2] / "reference" / "docs" / "errors.md"

# The error sets of the course, chapters 3 to 23, with their variants; what only carries an inner error is left out.
VARIANTS = {
    "BpeTokenizerError": "LayoutOverflow UnknownMergeOperand DuplicateMergePair ControlTokenInContent UnknownToken "
    "DocumentTooShort ExpectedBos ExpectedEos InteriorControlToken InvalidUtf8",
    "WindowError": "ZeroContextLength ZeroStride ContextLengthOverflow",
    "BatchError": "ZeroBatchSize EmptyDocumentId PartitionMismatch DuplicateDocumentId WindowCountOverflow "
    "TokenCountOverflow AllocationFailed ContributionCountMismatch ZeroGradientWidth GradientWidthMismatch "
    "NonFiniteLoss NonFiniteGradient NonFiniteAccumulation EmptyAccumulator",
    "InitializationError": "EmptyName EmptyNameSegment InvalidNameCharacter ZeroFanIn ZeroFanOut FanSumOverflow "
    "ShapeProductOverflow AllocationFailed DuplicateName",
    "EmbeddingError": "TableRank EmptyVocabulary ZeroEmbeddingWidth TokenShape TokenCountMismatch TokenIdOutOfBounds "
    "IndexAllocationFailed",
    "LinearError": "WeightRank ZeroInputWidth ZeroOutputWidth BiasRank BiasWidthMismatch InputRank InputWidthMismatch "
    "BiasAllocationFailed",
    "SwiGluError": "Projection Autodiff BranchInputWidthMismatch BranchHiddenWidthMismatch DownInputWidthMismatch "
    "Initialization",
    "TensorAutodiffError": "NonFiniteLeaf NonFiniteForward UntrackedOutput GraphReleased ReleasedOperand "
    "SeedShapeMismatch NonFiniteSeed StaleOperandValue NonFiniteVjp NonFinitePassAdjoint "
    "NonFiniteAccumulatedGradient GradientBorrowed NotAParameter BroadcastTargetMismatch",
    "ModelOpError": "GatherTableRank GatherIndexCountMismatch GatherIndexOutOfBounds CausalSoftmaxRank "
    "CausalSoftmaxNonSquare CausalSoftmaxEmptyTokens OutputAllocationFailed",
    "ProbabilityError": "AxisOutOfBounds EmptyNormalizationAxis OutputAllocationFailed NaNLogit PositiveInfinityLogit "
    "NegativeInfinityLogit TargetCountMismatch EmptyTargets TargetOutOfBounds",
    "MatmulError": "LeftRankTooSmall RightRankTooSmall InnerDimensionMismatch IncompatibleBatch",
    "TensorOpError": "IncompatibleBroadcast ReductionAxisOutOfBounds EmptyMeanAxis EmptyMaxAxis",
    "TensorError": "ShapeOverflow DataLengthMismatch RankMismatch IndexOutOfBounds",
    "AdamWError": "InvalidLearningRate InvalidBeta1 InvalidBeta2 InvalidEpsilon InvalidWeightDecay "
    "InvalidDecayProduct InvalidGradientScale InvalidGradientNormalization EmptyParameterGroups "
    "EmptyGroupedParameterName DuplicateGroupedParameter ParameterInMultipleGroups EmptyParameterSet "
    "DuplicateParameterName ParameterSetChanged ParameterShapeChanged MissingGradient GradientShapeMismatch "
    "ParameterRevisionOverflow ParameterValueBorrowed StepOverflow NonFiniteArithmetic",
    "NeuralNgramError": "EmptyVocabulary ZeroContextLength ZeroEmbeddingWidth ZeroHiddenWidth "
    "ContextFeatureWidthOverflow ParameterCountOverflow EmptyBatch ContextTokenCountOverflow "
    "ContextTokenCountMismatch BatchContextLengthMismatch ParameterCountMismatch ParameterNameMismatch "
    "ParameterShapeMismatch MissingTargetRow TargetIdOutOfBounds TargetIdDoesNotFitUsize MaskedTokenOutOfBounds "
    "NoUnmaskedToken NonFiniteLogit",
}


def rows() -> list[tuple[str, str, str, str]]:
    """Return (section, first, second, third column) of every row that is not a header."""
    section = ""
    found: list[tuple[str, str, str, str]] = []
    for line in PAGE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            section = line[3:]
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and set(cells[0]) != {"-"} and cells[1] != "code":
            found.append((section, cells[0], cells[1], cells[2]))
    return found


def import_everything() -> None:
    """Import every module that has errors of the tree, so that it can be found as an attribute of its package."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


def codes() -> set[str]:
    """Return the codes of all errors of the reference."""
    import_everything()
    pending, found = [CaiReferenceError], set()
    while pending:
        error = pending.pop()
        pending.extend(other for other in error.__subclasses__() if other.__module__.startswith(OURS))
        found |= set(error.templates)
    return found


def test_the_codes_on_the_page_are_those_of_the_tables() -> None:
    """Each code stands there, and each that stands there exists; one of them belongs to the conformance package."""
    named = {name for _, _, code, _ in rows() for name in re.findall(r"`([\w-]+)`", code)}
    assert codes() | {"fixture-error"} == named


def test_every_row_has_a_code_or_a_reason() -> None:
    """A dash is explained by one of the reasons at the top of the page."""
    reasons = ("no overflow", "no allocation result", "no borrow", "no wrapper", "by construction", "no such call")
    for _, variant, code, where in rows():
        assert where
        assert (code == "–") == where.startswith(reasons), variant


def test_what_raises_exists() -> None:
    """Each call of the last column can be imported under that name."""
    import_everything()
    for _, _, _, where in rows():
        for path in re.findall(r"`(\w+(?:\.\w+)+)`", where):
            package, room, *names = (path if path.startswith(OURS) else f"cai_reference.{path}").split(".")
            target: object = importlib.import_module(f"{package}.{room}")
            for name in names:
                assert hasattr(target, name), path
                target = getattr(target, name)


@pytest.mark.parametrize("error", VARIANTS)
def test_every_variant_of_the_course_has_a_row(error: str) -> None:
    """In its own section, once, in the course's order."""
    section = [variant for title, variant, _, _ in rows() if title == error]
    expected = VARIANTS[error].split()
    assert expected == [variant for variant in section if variant in expected]


def test_the_page_stays_inside_the_project() -> None:
    """No address, and no path that leads upwards."""
    text = PAGE.read_text("utf-8")
    assert not re.search(r"https?:|\.\./|\]\(", text)
