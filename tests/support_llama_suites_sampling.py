"""Second answers to the vector cases about sampling and optimising: plain loops over lists, written from the rules.

Sampling (course, chapter 36, with top-p and min-p behind top-k), speculation by chance (Leviathan and others, 2023),
and updates with one norm for all gradients (course, chapter 33).
Nothing here uses the project's own packages or NumPy. The smallest distance of a draw from a border is kept, so that a
test can say that no answer hangs on rounding.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support_decoder_description import Function, Vector
from support_ngram_oracle import SplitMix64

Input = Mapping[str, Any]  # JSON, different for each operation
Units = Callable[[], float]
LogitsAfter = Callable[[Sequence[int]], Vector]


@dataclass
class Closest:
    """The smallest distance that decided anything."""

    distance: float = math.inf

    def note(self, one: float, other: float) -> None:
        """Take note of a comparison of two numbers."""
        self.distance = min(self.distance, abs(one - other))


@dataclass(frozen=True)
class Sampler:
    """Settings of a sampler, and the exponential of its arithmetic."""

    temperature: float
    top_k: int | None
    top_p: float
    min_p: float
    exp: Function
    closest: Closest = field(default_factory=Closest)

    @classmethod
    def of(cls, given: Input, exp: Function, closest: Closest | None = None) -> Sampler:
        """Read the settings of a case."""
        numbers = (double(given[name]) for name in ("temperature", "top_p", "min_p"))
        temperature, top_p, min_p = numbers
        return cls(temperature, given["top_k"], top_p, min_p, exp, closest or Closest())

    def law(self, logits: Vector) -> tuple[list[int], Vector]:
        """Return the kept ids by rank, and the probability of every id."""
        ranked = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
        if self.temperature == 0.0:
            return ranked[:1], [1.0 if token == ranked[0] else 0.0 for token in range(len(logits))]
        if self.top_k is not None:
            ranked = ranked[: self.top_k]
        weights = {token: self._weight(logits[token], logits[ranked[0]]) for token in ranked}
        weights[ranked[0]] = 1.0
        kept = self._likely(self._nucleus(ranked, weights), weights)
        total = compensated([weights[token] for token in kept])
        law = [0.0] * len(logits)
        for token in kept:
            law[token] = weights[token] / total
        return kept, law

    def _weight(self, logit: float, highest: float) -> float:
        if self.temperature < 1.0:
            return self.exp((logit - highest) / self.temperature)
        return self.exp(logit / self.temperature - highest / self.temperature)

    def _nucleus(self, ranked: list[int], weights: Mapping[int, float]) -> list[int]:
        if self.top_p == 1.0:
            return ranked
        threshold = self.top_p * compensated([weights[token] for token in ranked])
        for count in range(1, len(ranked) + 1):
            mass = compensated([weights[token] for token in ranked[:count]])
            self.closest.note(mass, threshold)
            if mass >= threshold:
                return ranked[:count]
        return ranked

    def _likely(self, ranked: list[int], weights: Mapping[int, float]) -> list[int]:
        if self.min_p > 0.0:
            for token in ranked:
                self.closest.note(weights[token], self.min_p)
        return [token for token in ranked if weights[token] >= self.min_p]

    def choose(self, law: Vector, unit: float) -> int:
        """Walk the ids upwards; the last one of positive probability takes what is left."""
        positive = [token for token, probability in enumerate(law) if probability > 0.0]
        end = 0.0
        for token in positive[:-1]:
            end = min(end + law[token], 1.0)
            self.closest.note(unit, end)
            if unit < end:
                return token
        return positive[-1]

    def draw(self, logits: Vector, units: Units) -> int:
        """Take one number, or none at temperature 0."""
        kept, law = self.law(logits)
        return kept[0] if self.temperature == 0.0 else self.choose(law, units())


def double(digits: str) -> float:
    """Return the double that sixteen hex digits spell."""
    (value,) = struct.unpack(">d", bytes.fromhex(digits))
    return float(value)


def doubles(digits: Sequence[str]) -> Vector:
    """Return what a list of digits spells."""
    return [double(text) for text in digits]


def compensated(values: Sequence[float]) -> float:
    """Return Kahan's sum."""
    total = carried = 0.0
    for value in values:
        corrected = value - carried
        after = total + corrected
        carried = (after - total) - corrected
        total = after
    return total


def surplus(target: Vector, law: Vector) -> Vector:
    """Return what the target has over the law, divided by its sum; the target where there is nothing."""
    over = [p - q if p > q else 0.0 for p, q in zip(target, law, strict=True)]
    total = compensated(over)
    return [value / total for value in over] if total > 0.0 else target


def accepting(target: Vector, law: Vector, token: int) -> float:
    """Return the probability with which a guess is accepted."""
    return 1.0 if target[token] >= law[token] else target[token] / law[token]


def verified(guess: int, target: Vector, law: Vector, units: Units, sampler: Sampler) -> tuple[int, bool]:
    """Return the token that is committed, and whether it is the guess."""
    threshold, unit = accepting(target, law, guess), units()
    if threshold < 1.0:
        sampler.closest.note(unit, threshold)
    if unit < threshold:
        return guess, True
    return sampler.choose(surplus(target, law), units()), False


def speculated(given: Input, after: LogitsAfter, block: int, exp: Function) -> tuple[list[int], float]:
    """Return tokens and final state of speculation by chance, and the smallest distance that decided anything."""
    closest = Closest()
    wanted, drafting = (Sampler.of(part, exp, closest) for part in (given, given["draft"]))
    generator, ids, new = SplitMix64(given["seed"]), list(given["prompt"]), 0
    while new < given["new_tokens"]:
        guesses: list[tuple[int, Vector]] = []
        for _ in range(min(block, given["new_tokens"] - new - 1)):
            law = drafting.law(after([*ids, *(token for token, _ in guesses)]))[1]
            guesses.append((drafting.choose(law, generator.unit()), law))
        for token, law in guesses:
            committed, right = verified(token, wanted.law(after(ids))[1], law, generator.unit, wanted)
            ids.append(committed)
            new += 1
            if not right:
                break
        else:
            ids.append(wanted.draw(after(ids), generator.unit))
            new += 1
    return [*ids[len(given["prompt"]) :], generator.state], closest.distance


def sampled(given: Input, after: LogitsAfter, exp: Function) -> tuple[list[int], float]:
    """Return tokens and final state of a drawn continuation, and the smallest distance that decided anything."""
    sampler, generator, ids = Sampler.of(given, exp), SplitMix64(given["seed"]), list(given["prompt"])
    for _ in range(given["new_tokens"]):
        ids.append(sampler.draw(after(ids), generator.unit))
    return [*ids[len(given["prompt"]) :], generator.state], sampler.closest.distance


# ── cases that need no model ─────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Found:
    """An answer: ids, or doubles; and the smallest distance that decided any of the ids."""

    ids: list[int] | None = None
    values: Vector | None = None
    distance: float = math.inf


def second_answer(operation: str, given: Input, exp: Function) -> Found:
    """Return the answer to a case that needs no model."""
    return OPERATIONS[operation](given, exp)


def _distribution(given: Input, exp: Function) -> Found:
    return Found(values=Sampler.of(given, exp).law(doubles(given["logits"]))[1])


def _kept(given: Input, exp: Function) -> Found:
    sampler = Sampler.of(given, exp)
    return Found(ids=sampler.law(doubles(given["logits"]))[0], distance=sampler.closest.distance)


def _choose(given: Input, exp: Function) -> Found:
    sampler = Sampler.of(given, exp)
    law = sampler.law(doubles(given["logits"]))[1]
    ids = [sampler.choose(law, unit) for unit in doubles(given["units"])]
    return Found(ids=ids, distance=sampler.closest.distance)


def _draws(given: Input, exp: Function) -> Found:
    sampler, generator, ids = Sampler.of(given, exp), SplitMix64(given["seed"]), []
    for digits in given["rows"]:
        row = doubles(digits)
        ids.append(sampler.draw(row, generator.unit) if all(map(math.isfinite, row)) else -1)
    return Found(ids=[*ids, generator.state], distance=sampler.closest.distance)


def _acceptance(given: Input, _: Function) -> Found:
    target, law = doubles(given["target"]), doubles(given["law"])
    return Found(values=[accepting(target, law, token) for token in range(len(law)) if law[token] > 0.0])


def _residual(given: Input, _: Function) -> Found:
    return Found(values=surplus(doubles(given["target"]), doubles(given["law"])))


def _pass(given: Input, exp: Function) -> Found:
    sampler = Sampler(1.0, None, 1.0, 0.0, exp)
    units = iter(doubles(given["units"]))
    targets, laws = ([doubles(row) for row in given[name]] for name in ("targets", "laws"))
    committed: list[int] = []
    for place, guess in enumerate(given["guesses"]):
        token, right = verified(guess, targets[place], laws[place], lambda: next(units), sampler)
        committed.append(token)
        if not right:
            return Found(ids=[place, *committed], distance=sampler.closest.distance)
    bonus = sampler.choose(targets[len(committed)], next(units))
    return Found(ids=[len(committed), *committed, bonus], distance=sampler.closest.distance)


def _law(given: Input, _: Function) -> Found:
    """Count by the law itself: of grid³ triples of draws each token gets its probability's part."""
    target, grid = doubles(given["target"]), given["grid"]
    counts = [round(probability * grid**3) for probability in target]
    assert all(abs(count - p * grid**3) < 1e-6 for count, p in zip(counts, target, strict=True))
    return Found(ids=counts)


def _update(given: Input, _: Function) -> Found:
    """Clip by the global norm and step; the norm is largest · root, so that no square leaves the range."""
    limit, beta1, beta2, epsilon, decay = (
        double(given[name]) for name in ("maximum_norm", "beta1", "beta2", "epsilon", "weight_decay")
    )
    weights = {name: doubles(digits) for name, digits in given["weights"].items()}
    first = {name: [0.0] * len(values) for name, values in weights.items()}
    second = {name: [0.0] * len(values) for name, values in weights.items()}
    norms, power1, power2 = [], 1.0, 1.0
    for rate, spelled in zip(doubles(given["rates"]), given["gradients"], strict=True):
        gradients = {name: doubles(digits) for name, digits in spelled.items()}
        largest, squares = 0.0, 1.0
        for size in (abs(value) for name in weights for value in gradients[name]):
            if size == 0.0:
                continue
            if largest < size:
                squares = 1.0 + squares * (largest / size) * (largest / size)
                largest = size
            else:
                squares += (size / largest) * (size / largest)
        root = math.sqrt(squares)
        norms.append(largest * root)
        factor = (limit / largest) / root if largest > limit / root else 1.0
        power1, power2 = power1 * beta1, power2 * beta2
        for name, values in weights.items():
            shrinking = decay if name.endswith(".weight") else 0.0
            for place, weight in enumerate(values):
                gradient = gradients[name][place] * factor
                m = beta1 * first[name][place] + (1.0 - beta1) * gradient
                v = beta2 * second[name][place] + (1.0 - beta2) * (gradient * gradient)
                first[name][place], second[name][place] = m, v
                step = rate * ((m / (1.0 - power1)) / (math.sqrt(v / (1.0 - power2)) + epsilon))
                values[place] = (weight - step) - (rate * shrinking) * weight
    return Found(values=[*norms, *(value for values in weights.values() for value in values)])


OPERATIONS: Mapping[str, Callable[[Input, Function], Found]] = {
    "sampling.distribution": _distribution,
    "sampling.kept": _kept,
    "sampling.choose": _choose,
    "sampling.draws": _draws,
    "speculation.acceptance": _acceptance,
    "speculation.residual": _residual,
    "speculation.pass": _pass,
    "speculation.law": _law,
    "course.update": _update,
}
