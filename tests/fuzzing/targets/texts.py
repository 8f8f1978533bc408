"""Readers of texts: corpus, manifest, stories, expectations, vocabularies and rows of ids, filters."""

from __future__ import annotations

import json
from pathlib import Path

from cai_conformance import strict_json as golden_json
from cai_conformance.fixtures.stories.generator import generate_stories
from cai_conformance.fixtures.stories.reading import read_stories
from cai_conformance.report.expectations import apply_expectations, load_expectations
from cai_conformance.run.questions import compile_expression
from cai_conformance.suites import find_suite
from cai_conformance.suites.ngram import embedded_input
from cai_neural_api.bakeoff.data import read_data
from cai_neural_api.tokenizer import Vocabulary, decode, encode_lines, format_rows, parse_rows
from cai_reference.text import strict_json
from cai_reference.text.corpus import corpus_checksum, parse_corpus, parse_manifest, partition
from fuzzing.target import Target, scratch_file
from support_corpora import corpus_bytes, corpus_of, document, manifest_bytes
from support_inputs import FOX

CHECKS = ("course.ngram::trace.format", "course.ngram::fwd.oracle[hidden]", "cai.hybrid::dec.exact[cached]")

ENTRIES = b"""\
[[expected-failure]]
check = "course.ngram::fwd.oracle[hidden]"
reason = "the backend rounds the hidden layer to bfloat16"
link = "https://example.org/backend/issues/7"

[[expected-failure]]
check = "cai.*::dec.*"  # all of them
reason = 'no cache'
"""

VOCABULARY = b"the\nan\nlily\n don't\nand\n\xff\xfe\nIN\n"
ROWS = b"72,128\n\n5\n130,128,0,134\n2147483647\n"


def corpora() -> list[bytes]:
    """Return corpora in both spellings."""
    small = [document("a", FOX), document("b-2", "zwei\u2003 \U0001f98a", "de", "h"), document("c", "x", group="g")]
    return [
        embedded_input().corpus,
        corpus_bytes(*small),
        json.dumps([list(one.values()) for one in small], ensure_ascii=False, indent=1).encode(),
    ]


def manifests() -> list[bytes]:
    """Return manifests in both spellings, one of them of a corpus of three documents."""
    corpus = corpus_of(("a", "g"), ("b", "h"), ("c", "i"))
    fitting = json.loads(manifest_bytes(corpus_checksum=corpus.checksum))
    return [json.dumps(fitting, indent=2).encode(), json.dumps(list(fitting.values())).encode()]


def read_manifest(data: bytes) -> None:
    """Read a manifest, and split a corpus by it."""
    corpus = corpus_of(("a", "g"), ("b", "h"), ("c", "i"))
    partition(parse_manifest(data), corpus)


def read_ngram_input(data: bytes) -> None:
    """Read a corpus with the manifest of the embedded one, as the suite of n-grams does; its checksum is put right."""
    splits = json.loads(embedded_input().splits)
    splits["corpus_checksum"] = corpus_checksum(data)
    find_suite("course.ngram").input_of(data, json.dumps(splits).encode())


def stories() -> list[bytes]:
    """Return files of stories, cut in both ways."""
    made = [str(story) for story in generate_stories(60, 7)]
    return ["\n\n".join(made).encode(), ("\r\n<|endoftext|>\r\n".join(made[:40]) + "\n").encode()]


def read_expectations(data: bytes) -> None:
    """Read expectations, and hold them against the checks that there are."""
    apply_expectations([], load_expectations(scratch_file("expected.toml", data)), CHECKS)


def read_vocabulary(data: bytes) -> None:
    """Read a vocabulary, code a text with it, and decode it again."""
    vocabulary = Vocabulary.parse(data)
    rows = encode_lines(vocabulary, b"the cat and An lily\nin the\n")
    for row in rows:
        decode(vocabulary, row)
    assert vocabulary == Vocabulary.parse(vocabulary.format())


def read_rows(data: bytes) -> None:
    """Read rows of ids, decode them, and write them again."""
    rows = parse_rows(data)
    vocabulary = Vocabulary.parse(VOCABULARY)
    for row in rows:
        decode(vocabulary, row)
    assert rows == parse_rows(format_rows(rows))


def read_text(data: bytes) -> None:
    """Encode a text, line by line."""
    vocabulary = Vocabulary.parse(VOCABULARY)
    for row in encode_lines(vocabulary, data):
        decode(vocabulary, row)


def read_bakeoff_data(data: bytes) -> None:
    """Read rows as those of a bake-off."""
    read_data(scratch_file("vocabulary.txt", VOCABULARY), scratch_file("rows.csv", data), 140, 3)


def read_filter(data: bytes) -> None:
    """Read a filter, and ask it."""
    selects = compile_expression(data.decode("utf-8", "surrogateescape"))
    for check in CHECKS:
        selects(check)


def jsons() -> list[bytes]:
    """Return JSON of all kinds."""
    return [
        b'{"a": [1, 2.5, -3e4, true, null, "x\\u00e9\\n"], "b": {"c": {}}, "d": ""}',
        b"[[[]], {}, 0, -0.5]",
        Path(__file__).name.encode().join((b'"', b'"')),
    ]


TARGETS = (
    Target("text.json", jsons, strict_json.parse, share=60, allowed=(strict_json.JsonProblem,)),
    Target("text.corpus", corpora, parse_corpus),
    Target("text.manifest", manifests, read_manifest),
    Target("suites.ngram-input", lambda: corpora()[:1], read_ngram_input, share=20),
    Target("suites.stories", stories, lambda data: find_suite("cai.hybrid").input_of(data, b""), share=10),
    Target("stories", stories, read_stories),
    Target("expectations", lambda: [ENTRIES], read_expectations),
    Target("goldens.json", jsons, golden_json.parse, share=60, allowed=(ValueError,)),
    Target("legacy.vocabulary", lambda: [VOCABULARY, b"the\n", b""], read_vocabulary),
    Target("legacy.rows", lambda: [ROWS, b"", b"\n"], read_rows),
    Target("legacy.text", lambda: [b"the cat and An lily\r\nin the\rzoo\n\xc3\xa9 ''"], read_text, share=60),
    Target("bakeoff.rows", lambda: [ROWS, b"1,2,3\n" * 9], read_bakeoff_data, share=40),
    Target("selection", lambda: [b"(trace or fwd) and not dec.exact*", b"not not (a or (b and c)) or ?x"], read_filter),
)
