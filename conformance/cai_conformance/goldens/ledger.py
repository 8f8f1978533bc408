"""`golden/ledger.jsonl`: why the goldens are what they are, one accepted change a line, only ever appended to.

The ledger keeps no dates: the history of the repository has them, and a date would make two equal recordings differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cai_conformance.errors import GoldenError
from cai_conformance.goldens import names, strict_json
from cai_conformance.goldens.errors import LedgerDamaged
from cai_conformance.goldens.records import FileChange, LedgerEntry, SuiteEntry


def write(entries: Iterable[LedgerEntry]) -> bytes:
    """Ledger lines as UTF-8 JSON, each with a final LF."""
    return b"".join(
        strict_json.write_line(
            {
                "sequence": entry.sequence,
                "suite": entry.suite,
                "suite_version": entry.suite_version,
                "reason": entry.reason,
                "files": {file.name: {"before": file.before, "after": file.after} for file in entry.files},
            }
        )
        for entry in entries
    )


def read(data: bytes, path: str) -> tuple[LedgerEntry, ...]:
    """The accepted changes in their order; `path` is for the error only.

    Raises:
        LedgerDamaged: anything that appending would not have left: a cut or bent line, a gap in the sequence, a hash
            before a change that is not the hash after the previous one.
    """
    entries: list[LedgerEntry] = []
    hashes: dict[tuple[str, str], str] = {}
    *lines, rest = data.split(b"\n")
    try:
        if rest:
            raise ValueError("its last line is cut off")
        for number, line in enumerate(lines, start=1):
            entry = _entry(line, number)
            for file in entry.files:
                if hashes.get((entry.suite, file.name)) != file.before:
                    raise ValueError(f"line {number} does not follow from the previous change of {file.name}")
                hashes[entry.suite, file.name] = file.after
            entries.append(entry)
    except (ValueError, GoldenError) as error:
        raise LedgerDamaged(path, str(error).rstrip(".")) from error
    return tuple(entries)


def contradictions(entries: Iterable[LedgerEntry], manifest: Mapping[str, SuiteEntry]) -> dict[str, tuple[str, ...]]:
    """Where ledger and manifest tell different stories: sentences without a full stop, by suite."""
    hashes: dict[str, dict[str, str]] = {}
    versions: dict[str, str] = {}
    for entry in entries:
        versions[entry.suite] = entry.suite_version
        hashes.setdefault(entry.suite, {}).update({file.name: file.after for file in entry.files})
    found = {suite: _contradictions(versions, hashes, manifest, suite) for suite in sorted({*versions, *manifest})}
    return {suite: problems for suite, problems in found.items() if problems}


def _contradictions(
    versions: Mapping[str, str], hashes: Mapping[str, Mapping[str, str]], manifest: Mapping[str, SuiteEntry], suite: str
) -> tuple[str, ...]:
    if suite not in manifest:
        return ("the ledger has a golden that the manifest does not list",)
    if suite not in versions:
        return ("the manifest lists a golden that the ledger never accepted",)
    problems = []
    if versions[suite] != manifest[suite].suite_version:
        stated = manifest[suite].suite_version
        problems.append(f"the manifest says suite version {stated} and the ledger {versions[suite]}")
    listed = {file.name: file.sha256 for file in manifest[suite].files}
    problems += [
        f"manifest and ledger have different hashes of {name}"
        for name in sorted({*listed, *hashes[suite]})
        if listed.get(name) != hashes[suite].get(name)
    ]
    return tuple(problems)


def _entry(line: bytes, number: int) -> LedgerEntry:
    where = f"line {number}"
    try:
        value = strict_json.parse(line)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    page = strict_json.obj(value, ("sequence", "suite", "suite_version", "reason", "files"), where)
    if strict_json.count(page["sequence"], f"the sequence of {where}") != number:
        raise ValueError(f"{where} has the sequence number {page['sequence']}")
    files = page["files"]
    if not isinstance(files, dict):
        raise ValueError(f"the files of {where} are not an object")
    return LedgerEntry(
        sequence=number,
        suite=names.check_suite(strict_json.text(page["suite"], f"the suite of {where}")),
        suite_version=strict_json.text(page["suite_version"], f"the suite_version of {where}"),
        reason=strict_json.text(page["reason"], f"the reason of {where}"),
        files=tuple(_change(name, files[name], where) for name in sorted(files)),
    )


def _change(name: str, value: object, where: str) -> FileChange:
    page = strict_json.obj(value, ("before", "after"), f"{name} in {where}")
    before = None if page["before"] is None else strict_json.sha256(page["before"], f"before of {name} in {where}")
    return FileChange(names.check_file(name), before, strict_json.sha256(page["after"], f"after of {name} in {where}"))
