"""Commands that are given a file: they end with exit code 0, 1 or 2, and say why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuzzing.target import Target, scratch_file, scratch_folder
from fuzzing.targets import nets, texts, traces
from support_cli import invoke

FILE = "FILE"
"""Stands for the path of the file."""


def of_file(
    name: str, *arguments: str, stdin: bool = False, beside: dict[str, Callable[[], bytes]] | None = None
) -> Callable[[bytes], object]:
    """Return the call of a command on bytes: in a file of this name, or on standard input."""

    def call(data: bytes) -> None:
        path = scratch_file(f"command/{name}", data)
        given = [str(path) if argument == FILE else argument for argument in arguments]
        for other, make in (beside or {}).items():
            scratch_file(f"command/{other}", make())
        folder = scratch_folder() / "command"
        given = [argument.replace("BESIDE/", f"{folder}/") for argument in given]
        result = invoke(*given, stdin=data if stdin else b"")
        assert result.code in (0, 1, 2), f"exit code {result.code}"
        assert "Traceback" not in result.err
        if result.code == 2:
            assert 1 == len(result.sentences), result.err

    return call


def _vocabulary() -> bytes:
    return texts.VOCABULARY


def _small_net() -> bytes:
    return nets.SMALL.seeds[0]


def _golden() -> bytes:
    return traces.golden_ngram()


def _target(name: str, seeds: Callable[[], Sequence[bytes]], call: Callable[[bytes], object], share: int = 4) -> Target:
    return Target(f"command.{name}", seeds, call, share=share)


TARGETS = (
    Target("command.verify", traces.traces, of_file("t.txt", "verify", FILE, "-k", "trace.*"), traces.sealed, share=4),
    Target(
        "command.diff",
        lambda: traces.traces()[:1],
        of_file("t.txt", "diff", "BESIDE/golden.txt", FILE, beside={"golden.txt": _golden}),
        traces.sealed,
        share=4,
    ),
    _target("net-show", nets.net_files, of_file("n.nn", "net", "show", FILE, "--layers", "-f", "table")),
    _target("net-import", nets.net_files, of_file("n.nn", "net", "import", FILE, "-o", "BESIDE/w.st", "--force")),
    _target(
        "net-verify",
        nets.sample_of_small_net,
        of_file("s.json", "net", "verify", "BESIDE/n.nn", FILE, "-f", "table", beside={"n.nn": _small_net}),
    ),
    _target(
        "net-verified",
        nets.net_files,
        of_file(
            "n.nn", "net", "verify", FILE, "BESIDE/s.json", "-f", "json", beside={"s.json": lambda: nets.samples()[0]}
        ),
    ),
    _target(
        "generate",
        lambda: [*nets.net_files(), _small_net()],
        of_file(
            *("n.nn", "generate", FILE, "--vocabulary", "BESIDE/v.txt", "--prompt", "the", "-n", "2"),
            beside={"v.txt": _vocabulary},
        ),
    ),
    _target(
        "generate-prompt",
        lambda: [b"the lily and\n", b"in the"],
        of_file(
            *("p.txt", "generate", "BESIDE/n.nn", "--vocabulary", "BESIDE/v.txt", "-n", "1"),
            stdin=True,
            beside={"n.nn": _small_net, "v.txt": _vocabulary},
        ),
    ),
    _target(
        "chat",
        lambda: [b"the lily\nand\n\nexit\n"],
        of_file(
            *("p.txt", "chat", "BESIDE/n.nn", "--vocabulary", "BESIDE/v.txt", "-n", "1"),
            stdin=True,
            beside={"n.nn": _small_net, "v.txt": _vocabulary},
        ),
    ),
    _target(
        "tokenizer-fit",
        lambda: [b"the cat and the dog and the owl\n" * 3],
        of_file("t.txt", "tokenizer", "fit", FILE, "--size", "140", "-o", "BESIDE/fit.txt", "--force"),
        share=2,
    ),
    _target(
        "tokenizer-encode",
        lambda: [b"the cat\nand lily\n"],
        of_file(
            *("t.txt", "tokenizer", "encode", "--vocabulary", "BESIDE/v.txt", "--file", FILE, "--rows"),
            beside={"v.txt": _vocabulary},
        ),
    ),
    _target(
        "tokenizer-decode",
        lambda: [texts.ROWS],
        of_file(
            "r.csv", "tokenizer", "decode", "--vocabulary", "BESIDE/v.txt", stdin=True, beside={"v.txt": _vocabulary}
        ),
    ),
    _target(
        "tokenizer-vocabulary",
        lambda: [texts.VOCABULARY],
        of_file("v.txt", "tokenizer", "decode", "--vocabulary", FILE, "1", "128", "3000"),
    ),
    _target(
        "run-expectations",
        lambda: [texts.ENTRIES],
        of_file("e.toml", "run", "ngram", "--expect-failures", FILE, "-k", "nothing-at-all"),
    ),
    _target(
        "trace-corpus",
        texts.corpora,
        of_file("c.json", "trace", "ngram", "--corpus", FILE, "--splits", "BESIDE/c.json"),
    ),
)
