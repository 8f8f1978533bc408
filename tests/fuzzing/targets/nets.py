"""Readers of nets and of what was measured on them."""

from __future__ import annotations

import json
from dataclasses import replace

from cai_neural_api.conversion import decoder_to_net
from cai_neural_api.exchange import import_net
from cai_neural_api.format import NetFile, format_net, parse_net
from cai_neural_api.outline import outline_net, outline_objects
from cai_neural_api.verify.samples import parse_sample
from cai_neural_api.verify.verification import Tolerances, verify_net
from cai_reference.arithmetic.instances import FAST
from cai_reference.models.decoder import AttentionSpec, DecoderConfiguration, LatentSpec, SsmSpec, Wiring
from cai_reference.models.token_shift_draft import DraftConfiguration
from fuzzing.target import Target, scratch_file
from support_net_models import Configuration, drawn

SAMPLES: tuple[dict[str, object], ...] = (
    {
        "kind": "any",
        "seed": 5,
        "config": {"ctx": 7, "vocab": 13, "d_model": 12, "heads": 3, "ffn": 10},
        "count_weights": 1000,
        "layers": 20,
        "session": {"sdpa": 1, "ssm": 0, "rope": 1},
        "forward": [{"input": [1, 2, 3, 0, 0, 0, 0], "output": [[0.5] * 13] * 2}],
        "decode": [
            {
                "prompt": [2, 2],
                "greedy_full": [2, 2, 9],
                "greedy_session": [2, 2, 9],
                "library_streamed_eos_lt2": [2, 2, 9],
                "session_rows": [[0.25, 0.5], [1e-7, 1.0]],
            }
        ],
        "draft_decode": [{"prompt": [2, 2], "net_incremental": [2, 2, 9], "width2": [2, 2, 9]}],
        "note": "what was measured",
    },
    {"layers": {"3": [[0.5, [1.0, -2.5e-8]]], "10": []}},
    {
        "stories": [[5, 6, 7], [8, 9]],
        "grad_file": "a.grad.json",
        "grad_batch": [0, 1],
        "runs": [
            {"lr": 0.01, "batch": 1, "steps": 2, "step_loss": [1.0, 0.5], "step_error": [2.0, 1.5], "final": "a.nn"}
        ],
    },
    {
        "plain": [{"token": 3, "pos": 0, "cache_len": 1, "row": [0.5, 0.5]}],
        "evict_sink1_window4": [{"token": 3, "pos": 9, "cache_len": 5, "row": [0.25, 0.75]}],
    },
)


SMALLEST: dict[str, Configuration] = {
    "draft": DraftConfiguration(5, 4, 2, 3),
    "attention": DecoderConfiguration(5, 4, 4, 2, 3, (AttentionSpec(2),)),
    "hybrid": DecoderConfiguration(3, 4, 4, 1, 2, (SsmSpec(), LatentSpec(3, 2))),
    "grouped": DecoderConfiguration(3, 4, 4, 2, 4, (AttentionSpec(),), channels_per_group=2, futures=2),
    "parallel": DecoderConfiguration(3, 4, 4, 2, 2, (AttentionSpec(),), wiring=Wiring.PARALLEL),
}
"""Nets of a few kilobytes, together of all layers."""


def net_files() -> list[bytes]:
    """Return small nets of all kinds of layers."""
    return [format_net(decoder_to_net(drawn(SMALLEST[name]))) for name in SMALLEST]


def small_net() -> NetFile:
    """Return a net of one block."""
    return decoder_to_net(drawn(DecoderConfiguration(7, 7, 4, 2, 4, (AttentionSpec(),))))


def samples() -> list[bytes]:
    """Return samples of all layouts."""
    return [json.dumps(sample).encode() for sample in SAMPLES]


def read_net(data: bytes) -> None:
    """Read a net, tell what it is, and write it again."""
    net = parse_net(data)
    for line in outline_objects("file", outline_net(net), layers=True):
        json.dumps(line, allow_nan=False)
    written = format_net(net)
    assert written == format_net(parse_net(written))


def read_model(data: bytes) -> None:
    """Read the decoder that a net is."""
    import_net(parse_net(data))


def read_verified(data: bytes) -> None:
    """Hold a small net against a sample."""
    net = scratch_file("verified/net.nn", _small_net_file())
    sample = scratch_file("verified/net.json", data)
    verify_net(net, sample, Tolerances(1e-5, 1e-5, 1e-5, 1e-5), FAST)


def _small_net_file() -> bytes:
    return SMALL.seeds[0]


def sample_of_small_net() -> list[bytes]:
    """Return samples that have the sizes of the small net, and some that have not."""
    row = [1.0 / 7] * 7
    first = {**SAMPLES[0], "forward": [{"input": [1, 2, 3, 4, 5, 6, 0], "output": [row] * 7}], "config": {"vocab": 7}}
    first["decode"] = [{"prompt": [2, 2], "greedy_full": [2, 2, 3], "session_rows": [row, row]}]
    del first["draft_decode"]
    return [json.dumps(sample).encode() for sample in (first, *SAMPLES)]


SMALL = Target("nets.small", lambda: [format_net(small_net())], read_net, share=30)

TARGETS = (
    Target("nets.file", net_files, read_net),
    SMALL,
    replace(SMALL, name="nets.import", make_seeds=net_files, read=read_model),
    Target("nets.sample", samples, lambda data: parse_sample(data, "file")),
    Target("nets.verify", sample_of_small_net, read_verified, share=20),
)
