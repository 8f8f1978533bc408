"""What a decode suite states about its conventions, before any number."""

from __future__ import annotations

from cai_conformance.backends.decoder.plan import Phase, Sizes


def conventions_of(phase: Phase, sizes: Sizes) -> tuple[tuple[str, str], ...]:
    """Return the fields of the CONVENTION record of a suite."""
    attends = any(letter in phase.mixers for letter in "awl")
    scale = "1/sqrt(head width + rope width)" if phase.has_latent else "1/sqrt(head width)"
    return (
        ("rope", "adjacent pairs" if attends else "none"),
        ("rope_base", "10000" if attends else "none"),
        ("window", f"{sizes.window}, the current token included" if "w" in phase.mixers else "none"),
        ("argmax", "lowest id"),
        ("softmax_scale", f"product with {scale}" if attends else "none"),
        ("swiglu_gate", "second half"),
        ("norm", "dynamic tanh"),
        ("norm_eps", "none"),
        ("tie", "untied"),
        ("adamw", "decoupled decay of matrices before the update, epsilon outside the root, running beta products"),
        ("loss", "mean over real targets" + ("; mean of the heads' means" if phase.futures else "")),
        ("padding", "id 0 on the right, never counted"),
    )
