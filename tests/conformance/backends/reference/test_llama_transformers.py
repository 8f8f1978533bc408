"""The golden folders of the Llama suites in Hugging Face's transformers, which share nothing with the reference.

The folders are loaded as they are. transformers computes norms, rotary tables and softmax in single precision, whatever
the model's precision is; for the comparisons in double precision its modules see another `float32`, and run otherwise
unchanged. One test leaves even that as it is.
"""

from __future__ import annotations

import importlib
import json
import os
import warnings
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from cai_conformance.fixtures.decoder_phases import phase_of, sizes_for
from cai_conformance.fixtures.given_weights import read_given
from cai_conformance.fixtures.goldens.store import locate
from cai_conformance.fixtures.weight_files import hugging_face_name, is_transposed
from cai_reference.arithmetic import Array
from cai_reference.arithmetic.instances import STRICT
from cai_reference.autograd import Tape
from cai_reference.autograd.backward import backward
from cai_reference.models.stack import DecoderStack
from cai_reference.splitmix import SplitMix64, below
from cai_reference.text.story_batches import StoryBatch

MISSING = [name for name in ("torch", "transformers") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"{' and '.join(MISSING)} not installed; CONTRIBUTING.md says how to install torch"
)

SUITES = {"llama.dense": "LlamaForCausalLM", "llama.gqa-window": "MistralForCausalLM"}
MODULES = ("transformers.models.llama.modeling_llama", "transformers.models.mistral.modeling_mistral")
STARTS = (0, 3000)
LENGTH = 20
"""More tokens than the window reaches through both layers."""

CLOSE = 1e-10
"""For logits of order 10; measured are 1e-14, and 1.1e-13 from position 3000 on."""
CLOSE_GRADIENTS = 1e-8
SINGLE = 2e-4
"""For logits of transformers as it is; measured are 2e-6, and 4e-5 from position 3000 on."""

# Neither torch nor transformers is there in every environment, so that their types are not known to the type checker.
Model = Any


class DoublePrecision:
    """`torch` for a module whose single precision is to be double precision."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.float32 = self.float = torch.float64

    def __getattr__(self, name: str) -> Any:
        """Pass on everything else."""
        return getattr(self._torch, name)


@cache
def imported(name: str) -> Any:
    """Import a module whose own warnings are not ours."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


@pytest.fixture
def torch() -> Iterator[Any]:
    """One thread, and warnings of foreign code are no errors."""
    found = imported("torch")
    threads = found.get_num_threads()
    found.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield found
    found.set_num_threads(threads)


@pytest.fixture
def double(torch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lift the single precision of transformers' modules."""
    for name in MODULES:
        monkeypatch.setattr(imported(name), "torch", DoublePrecision(torch))


def loaded(suite: str, attention: str = "eager") -> Model:
    """Load a golden folder, in double precision, and require that every tensor found its place."""
    torch, transformers = imported("torch"), imported("transformers")
    transformers.utils.logging.disable_progress_bar()
    model, info = getattr(transformers, SUITES[suite]).from_pretrained(
        locate() / suite, dtype=torch.float64, attn_implementation=attention, output_loading_info=True
    )
    assert not any(info.values()), info
    return model


def ours(suite: str) -> DecoderStack:
    """Return the reference's model on the same file."""
    phase = phase_of(suite)
    data = (locate() / suite / phase.weights_layout.file).read_bytes()
    return read_given(phase, sizes_for(phase, "golden", 0), data)


@cache
def sequence() -> tuple[int, ...]:
    """Return BOS and drawn ids, one of them twice."""
    generator = SplitMix64(77)
    drawn = [2 + below(generator, 318) for _ in range(LENGTH - 2)]
    return (0, *drawn, drawn[3])


@cache
def our_logits(suite: str, start: int) -> Array:
    """Return the logits [tokens, vocabulary] of the batch path in `strict/1`."""
    tape = Tape(STRICT, recording=False)
    found: Array = ours(suite).forward(tape, sequence(), batch=1, start=start)[0].value[0]
    return found


def their_logits(torch: Any, model: Model, start: int) -> Array:
    """Return transformers' logits at the same positions."""
    positions = torch.arange(start, start + LENGTH)[None]
    with torch.no_grad():
        found = model(torch.tensor([sequence()]), position_ids=positions).logits[0]
    logits: Array = found.to(torch.float64).numpy()
    return logits


def distances(suite: str, start: int, found: Array) -> list[float]:
    """Return the largest distance at each position."""
    return [float(distance) for distance in np.max(np.abs(found - our_logits(suite, start)), axis=1)]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("suite", SUITES)
def test_the_logits_are_transformers_logits(torch: Any, suite: str, attention: str, start: int) -> None:
    """At every position, by both of its attentions; from position 3000 on as well."""
    found = distances(suite, start, their_logits(torch, loaded(suite, attention), start))
    assert [] == [(position, distance) for position, distance in enumerate(found) if not distance <= CLOSE], found


@pytest.mark.parametrize("suite", SUITES)
def test_transformers_as_it_is_differs_by_single_precision(torch: Any, suite: str) -> None:
    """Nothing is lifted: the distance is that of single precision, and no more."""
    model = loaded(suite)
    found = [max(distances(suite, start, their_logits(torch, model, start))) for start in STARTS]
    assert all(CLOSE < distance < SINGLE for distance in found), found


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("suite", SUITES)
def test_transformers_generates_the_same_tokens(torch: Any, suite: str, cached: bool) -> None:
    """Greedily, with its cache and without; the tokens are those of the vector case."""
    cases = json.loads((locate() / suite / "vectors.json").read_bytes())["cases"]
    case = next(case for case in cases if case["id"] == "gen.given.full")
    prompt, count = case["input"]["prompt"], case["input"]["new_tokens"]
    model = loaded(suite)
    settings = imported("transformers").GenerationConfig(
        max_new_tokens=count, do_sample=False, use_cache=cached, pad_token_id=0, bos_token_id=0, eos_token_id=None
    )
    ids = torch.tensor([prompt])
    found = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)[0].tolist()
    assert [*prompt, *case["expected"]["ids"]] == found


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("suite", SUITES)
def test_loss_and_gradients_are_those_of_torch(torch: Any, suite: str) -> None:
    """The mean over real targets of ragged stories, and its gradient toward every parameter."""
    batch = StoryBatch((sequence(), sequence()[5:18], (*sequence()[:8], 1)), LENGTH - 1)
    mine = ours(suite)
    loss = mine.loss(Tape(STRICT), batch)
    backward(loss)

    model = loaded(suite)
    logits = model(torch.tensor(batch.flat_ids).reshape(batch.rows, batch.width)).logits
    places, targets = batch.targets()
    theirs = torch.nn.functional.cross_entropy(logits.flatten(0, 1)[places], torch.tensor(targets))
    theirs.backward()
    assert abs(float(loss.value) - theirs.item()) <= CLOSE_GRADIENTS

    gradients = {name: parameter.grad.numpy() for name, parameter in model.named_parameters()}
    found: dict[str, float] = {}
    for parameter in mine.parameters:
        other = gradients.pop(hugging_face_name(parameter.name))
        assert np.abs(other).max() > 1e-6, f"{parameter.name} has no gradient to compare"
        turned = other.T if is_transposed(parameter.name) else other
        found[parameter.name] = float(np.abs(turned - parameter.gradient).max())
    assert {} == gradients
    assert [] == [item for item in found.items() if not item[1] <= CLOSE_GRADIENTS]
