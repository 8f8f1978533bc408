"""`golden/manifest.json`: what the goldens are, as data a reviewer can read in a diff.

Reading is strict and does not look at the files that the manifest speaks of; `status` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from cai_conformance.errors import GoldenError
from cai_conformance.goldens import names, strict_json
from cai_conformance.goldens.errors import ManifestDamaged
from cai_conformance.goldens.records import FileEntry, SuiteEntry

FORMAT: Final = 1


def write(entries: Iterable[SuiteEntry]) -> bytes:
    """The manifest as UTF-8 JSON: suites by name, files by path, keys sorted, one field a line."""
    suites = [_suite_json(entry) for entry in sorted(entries, key=lambda entry: entry.suite)]
    return strict_json.write_page({"format": FORMAT, "suites": suites})


def read(data: bytes, path: str) -> dict[str, SuiteEntry]:
    """The entries by suite, in the order of their names; `path` is for the error only.

    Raises:
        ManifestDamaged: anything that `write` would not have written.
    """
    try:
        page = strict_json.obj(strict_json.parse(data), ("format", "suites"), "the manifest")
        if page["format"] != FORMAT or isinstance(page["format"], bool):
            raise ValueError(
                f"its format is {strict_json.shown(page['format'])}, and this program knows format {FORMAT}"
            )
        entries = [
            _suite(value, f"suite {place}") for place, value in enumerate(strict_json.array(page["suites"], "suites"))
        ]
        found = {entry.suite: entry for entry in entries}
        if list(found) != sorted(found) or len(found) != len(entries):
            raise ValueError("its suites are not in the order of their names, or one stands twice")
    except (ValueError, GoldenError) as error:
        raise ManifestDamaged(path, str(error).rstrip(".")) from error
    return found


def _suite_json(entry: SuiteEntry) -> strict_json.Object:
    return {
        "suite": entry.suite,
        "suite_version": entry.suite_version,
        "arithmetic": entry.arithmetic,
        "command": entry.command,
        "files": [_file_json(entry.suite, file) for file in entry.files],
    }


def _file_json(suite: str, file: FileEntry) -> strict_json.Object:
    page: strict_json.Object = {"path": f"{suite}/{file.name}", "sha256": file.sha256, "bytes": file.size}
    if file.records is not None:
        page["records"] = file.records
    return page


def _suite(value: object, where: str) -> SuiteEntry:
    page = strict_json.obj(value, ("suite", "suite_version", "arithmetic", "command", "files"), where)
    suite = names.check_suite(strict_json.text(page["suite"], f"the name of {where}"))
    files = tuple(_file(suite, file) for file in strict_json.array(page["files"], f"the files of {suite}"))
    listed = [file.name for file in files]
    if listed != sorted(set(listed)):
        raise ValueError(f"the files of {suite} are not in the order of their paths, or one stands twice")
    if names.TRACE not in listed:
        raise ValueError(f"{suite} lists no {names.TRACE}")
    return SuiteEntry(
        suite=suite,
        suite_version=strict_json.text(page["suite_version"], f"the suite_version of {suite}"),
        arithmetic=strict_json.text(page["arithmetic"], f"the arithmetic of {suite}"),
        command=strict_json.text(page["command"], f"the command of {suite}"),
        files=files,
    )


def _file(suite: str, value: object) -> FileEntry:
    where = f"a file of {suite}"
    page = strict_json.obj(value, ("path", "sha256", "bytes"), where, optional=("records",))
    folder, _, name = strict_json.text(page["path"], f"the path of {where}").partition("/")
    if folder != suite:
        raise ValueError(f"{where} has the path {page['path']}, outside the folder of the suite")
    names.check_file(name)
    if (name == names.TRACE) != ("records" in page):
        raise ValueError(f"the record count belongs to {names.TRACE} and to no other file of {suite}")
    return FileEntry(
        name=name,
        sha256=strict_json.sha256(page["sha256"], f"the sha256 of {page['path']}"),
        size=strict_json.count(page["bytes"], f"the bytes of {page['path']}"),
        records=strict_json.count(page["records"], f"the records of {page['path']}") if "records" in page else None,
    )
