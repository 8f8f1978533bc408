"""Judge every conforming variant that this machine has, and count the runs: no one of them may fail.

    python tests/variants/run.py [--jobs N] [--only TEXT]

A run is one suite judged on one variant. Variants are the reference in its three arithmetics, under several BLAS
kernels, thread counts and SIMD levels; PyTorch and transformers in their formats, where they are installed; the
programs of `conformance/examples`. How many checks each judged is printed beside it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "conformance" / "examples"
SERVED = f"serve:{sys.executable} -m cai_conform.main serve reference --arithmetic"
LLAMA = ("llama.dense", "llama.gqa-window")
DECODERS = (
    "kv-cache",
    "multi-token",
    "diagonal-ssm",
    "latent-attention",
    "cai.speculative",
    "cai.hybrid",
    "grouped-hybrid",
    "local-global",
    "parallel-block",
    "course.decoder",
    *LLAMA,
)
BAD = ("fail", "xpass", "blocked", "errored")


@dataclass(frozen=True)
class Variant:
    """One way to conform.

    Attributes:
        name: for the report.
        backend: as on the command line.
        suites: that it is judged by; all of them if empty.
        environment: variables that it is run under.
        arguments: more of the command line.
    """

    name: str
    backend: str
    suites: tuple[str, ...] = DECODERS
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What came of a variant: verdicts by suite, and those that are bad."""

    variant: Variant
    suites: Mapping[str, Counter[str]]
    bad: tuple[str, ...]

    @property
    def judged(self) -> int:
        """How many checks were judged."""
        return sum(count for counts in self.suites.values() for name, count in counts.items() if name != "skipped")


def variants(work: Path) -> Iterator[Variant]:
    """Yield all variants of this machine; programs are compiled into `work`."""
    for arithmetic in ("strict", "fast", "libm"):
        yield Variant(f"the whole run in {arithmetic}", "reference", (), arguments=("--arithmetic", arithmetic))
        yield Variant(f"given weights in {arithmetic}", f"{SERVED} {arithmetic}")
    for kernel in ("Prescott", "Nehalem", "Sandybridge", "Haswell", "SkylakeX", "Zen"):
        if not runs_here(kernel):
            print(f"BLAS kernel {kernel}: this processor cannot run it", flush=True)
            continue
        for threads in ("1", "2"):
            variables = {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": threads}
            yield Variant(f"fast, BLAS kernel {kernel}, threads {threads}", f"{SERVED} fast", environment=variables)
    for level in ("X86_V4 AVX512_ICL AVX512_SPR", "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"):
        yield Variant(f"fast without {level}", f"{SERVED} fast", environment={"NPY_DISABLE_CPU_FEATURES": level})
    if importlib.util.find_spec("torch") is not None:
        for precision in ("float64", "float32", "bfloat16"):
            for threads in ("1", "2"):
                yield Variant(
                    f"PyTorch, {precision}, threads {threads}",
                    f"torch:{precision}",
                    environment={"OMP_NUM_THREADS": threads},
                )
    if importlib.util.find_spec("transformers") is not None and importlib.util.find_spec("torch") is not None:
        for precision in ("float64", "float32", "bfloat16"):
            yield Variant(f"transformers, {precision}", f"transformers:{precision}", LLAMA)
    yield Variant("plain Python", f"serve:{sys.executable} {EXAMPLES / 'plain_python' / 'engine.py'}", LLAMA)
    compiler = shutil.which("cc")
    if compiler is not None:
        program = work / "cai-c99"
        sources = sorted(map(str, (EXAMPLES / "c99").glob("*.c")))
        options = ["-std=c99", "-O2", "-ffp-contract=off", "-o", str(program)]
        subprocess.run([compiler, *options, *sources, "-lm"], check=True)
        yield Variant("C99, line by line", f"serve:{program} serve", LLAMA)
        yield Variant("C99, traces", f"exec:{program}", ("ngram",))


def runs_here(kernel: str) -> bool:
    """Return whether a product survives a BLAS kernel, which may use instructions that this processor does not have."""
    product = "import numpy; numpy.ones((200, 200)) @ numpy.ones((200, 200))"
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernel}
    return subprocess.run([sys.executable, "-c", product], capture_output=True, env=environment).returncode == 0


def judge(variant: Variant) -> Result:
    """Run a variant."""
    command = [sys.executable, "-m", "cai_conform.main", "run", *variant.suites, "--backend", variant.backend]
    command += ["--format", "json", "--jobs", "1", "--timeout", "300", *variant.arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **variant.environment}, check=False
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    suites: dict[str, Counter[str]] = {}
    bad: list[str] = []
    for line in lines:
        if line["type"] == "verdict":
            suites.setdefault(line["suite"], Counter())[line["outcome"]] += 1
            if line["outcome"] in BAD:
                bad.append(f"{line['outcome']} {line['check']}: {line['message']}")
    if not lines:
        bad.append(f"no report: {done.stderr.strip()[-300:]}")
    return Result(variant, suites, tuple(bad))


def main() -> int:
    """Judge all variants, print a line each, and return 1 if one of them fails."""
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", help="only variants whose name holds this text")
    options = parser.parse_args()
    runs = failed = 0
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(options.jobs) as executor:
        wanted = [variant for variant in variants(Path(work)) if options.only in variant.name]
        for result in executor.map(judge, wanted):
            totals: Counter[str] = sum(result.suites.values(), Counter())
            runs += len(result.suites)
            failed += bool(result.bad)
            counts = ", ".join(f"{count} {name}" for name, count in sorted(totals.items()))
            print(f"{result.variant.name}: {len(result.suites)} suites, {result.judged} judged: {counts}", flush=True)
            for line in result.bad:
                print(f"  {line}", flush=True)
    print(f"{runs} runs, {failed} variants with failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
