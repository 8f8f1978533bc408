"""Commands that are given a file: they end with exit code 0, 1 or 2, and say why."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fuzzing.target import Target, scratch_file, scratch_folder
from fuzzing.targets import nets, texts, traces
from support_cli import invoke

BESIDE: dict[str, Callable[[], bytes]] = {
    "golden.txt": traces.golden_ngram,
    "n.nn": lambda: nets.SMALL.seeds[0],
    "s.json": lambda: nets.samples()[0],
    "v.txt": lambda: texts.VOCABULARY,
}
"""Valid files that a command is given beside the mutated one."""


def target(
    name: str,
    seeds: Callable[[], Sequence[bytes]],
    file: str,
    command: str,
    *,
    repair: Callable[[bytes], bytes] | None = None,
    share: int = 4,
) -> Target:
    """Return a command as a reader of the bytes that it is given, in a file or on standard input.

    Args:
        name: of the target.
        seeds: makes valid files.
        file: what the file is called.
        command: its words; FILE stands for the path of the file, and BESIDE for the folder in which it lies. Where
            FILE is missing, the bytes are standard input.
        repair: puts checksums right, as that of a target.
        share: as that of a target.
    """

    def call(data: bytes) -> None:
        path = scratch_file(f"command/{file}", data)
        for other, make in BESIDE.items():
            if f"BESIDE/{other}" in command:
                scratch_file(f"command/{other}", make())
        folder = scratch_folder() / "command"
        words = [word.replace("FILE", str(path)).replace("BESIDE", str(folder)) for word in command.split()]
        result = invoke(*words, stdin=b"" if "FILE" in command else data)
        assert result.code in (0, 1, 2), f"exit code {result.code}"
        assert "Traceback" not in result.err
        if result.code == 2:
            assert 1 == len(result.sentences), result.err

    return Target(f"command.{name}", seeds, call, repair, share=share)


CORPUS = [b"the cat and the dog and the owl\n" * 3]

TARGETS = (
    target("verify", traces.traces, "t.txt", "verify FILE -k trace.*", repair=traces.sealed),
    target("diff", lambda: traces.traces()[:1], "t.txt", "diff BESIDE/golden.txt FILE", repair=traces.sealed),
    target("net-show", nets.net_files, "n.nn", "net show FILE --layers -f table"),
    target("net-import", nets.net_files, "n.nn", "net import FILE -o BESIDE/w.st --force"),
    target("net-verify", nets.sample_of_small_net, "s.json", "net verify BESIDE/n.nn FILE -f table"),
    target("net-verified", nets.net_files, "n.nn", "net verify FILE BESIDE/s.json -f json"),
    target(
        "generate",
        lambda: [*nets.net_files(), nets.SMALL.seeds[0]],
        "n.nn",
        "generate FILE --vocabulary BESIDE/v.txt --prompt the -n 2",
    ),
    target(
        "generate-prompt",
        lambda: [b"the lily and\n", b"in the"],
        "p.txt",
        "generate BESIDE/n.nn --vocabulary BESIDE/v.txt -n 1",
    ),
    target("chat", lambda: [b"the lily\nand\n\nexit\n"], "p.txt", "chat BESIDE/n.nn --vocabulary BESIDE/v.txt -n 1"),
    target(
        "tokenizer-fit", lambda: CORPUS, "t.txt", "tokenizer fit FILE --size 140 -o BESIDE/fit.txt --force", share=2
    ),
    target(
        "tokenizer-encode",
        lambda: [b"the cat\nand lily\n"],
        "t.txt",
        "tokenizer encode --vocabulary BESIDE/v.txt --file FILE --rows",
    ),
    target("tokenizer-decode", lambda: [texts.ROWS], "r.csv", "tokenizer decode --vocabulary BESIDE/v.txt"),
    target(
        "tokenizer-vocabulary", lambda: [texts.VOCABULARY], "v.txt", "tokenizer decode --vocabulary FILE 1 128 3000"
    ),
    target("run-expectations", lambda: [texts.ENTRIES], "e.toml", "run ngram --expect-failures FILE -k nothing-at-all"),
    target("trace-corpus", texts.corpora, "c.json", "trace ngram --corpus FILE --splits BESIDE/c.json"),
)
