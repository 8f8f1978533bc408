"""Where goldens are looked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from cai_conformance.goldens.errors import GoldenFolderMissing
from cai_conformance.goldens.locate import locate


def package_in(folder: Path) -> Path:
    """A package folder with goldens inside and beside its source root, below a pyproject.toml."""
    package = folder / "conformance" / "cai_conformance"
    (package / "golden").mkdir(parents=True)
    (folder / "golden").mkdir()
    (folder / "pyproject.toml").touch()
    return package


def test_explicit_path_comes_first(tmp_path: Path) -> None:
    """The caller's folder wins over the environment and the checkout."""
    package = package_in(tmp_path)
    explicit = tmp_path / "mine"
    explicit.mkdir()
    assert explicit == locate(explicit, environ={"CAI_CONFORM_GOLDEN": str(tmp_path / "golden")}, package=package)


def test_environment_comes_before_the_checkout(tmp_path: Path) -> None:
    """CAI_CONFORM_GOLDEN names the folder."""
    package = package_in(tmp_path)
    (tmp_path / "other").mkdir()
    found = locate(environ={"CAI_CONFORM_GOLDEN": str(tmp_path / "other")}, package=package)
    assert tmp_path / "other" == found


def test_checkout_is_recognised(tmp_path: Path) -> None:
    """A checkout's goldens lie at its top; an empty variable counts as unset."""
    assert tmp_path / "golden" == locate(environ={"CAI_CONFORM_GOLDEN": ""}, package=package_in(tmp_path))


def test_installed_package_carries_its_goldens(tmp_path: Path) -> None:
    """In site-packages the goldens lie inside the package, even if someone else's pyproject.toml lies above."""
    package = tmp_path / "site-packages" / "cai_conformance"
    (package / "golden").mkdir(parents=True)
    (tmp_path / "pyproject.toml").touch()
    assert package / "golden" == locate(environ={}, package=package)


def test_a_named_folder_that_is_missing_is_an_error(tmp_path: Path) -> None:
    """There is no silent way from a mistyped folder to the shipped goldens; the error says who named it."""
    with pytest.raises(GoldenFolderMissing) as caught:
        locate(environ={"CAI_CONFORM_GOLDEN": str(tmp_path / "typo")}, package=package_in(tmp_path))
    assert "the environment variable CAI_CONFORM_GOLDEN" == caught.value.source
    assert str(tmp_path / "typo") in str(caught.value)


def test_relative_paths_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later change of directory does not move the store."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)
    assert tmp_path / "here" == locate("here", environ={})
