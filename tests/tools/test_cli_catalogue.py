"""`list`, `explain`, `backends list`, `arithmetic selftest`, `doctor`, help and version."""

from __future__ import annotations

import json

import pytest
import typer

from cai_conform.failures import Commands
from cai_conform.main import app
from cai_conformance.run import fingerprint
from cai_conformance.suites import SUITES, all_check_ids
from cai_conformance.verdicts import Level, Outcome
from cai_reference import __version__
from cai_reference.arithmetic import selftest
from cai_reference.arithmetic.selftest import CLibrarySelfTest, SelfTestResult
from support_cli import invoke
from support_traces import SUITE

NAMES = (
    "run, smoke, probe, shrink, serve, faults list, faults explain, faults run, list, explain, trace, verify, "
    "diff, course, published, doctor, golden, golden status, golden review, golden accept, vectors export, "
    "arithmetic selftest, backends list, net show, net verify, net decode, net import, net export, tokenizer fit, "
    "tokenizer encode, tokenizer decode, generate, chat, bakeoff"
)
COMMANDS = tuple(tuple(name.split()) for name in NAMES.split(", "))


class TestList:
    """What there is."""

    def test_a_pipe_gets_one_id_a_line(self) -> None:
        """All of them, in order."""
        result = invoke("list")
        assert (0, list(all_check_ids()), "") == (result.code, result.out.splitlines(), result.err)

    def test_a_terminal_gets_summaries(self) -> None:
        """With levels and counts of cases."""
        result = invoke("list", "ngram", environment={"FORCE_COLOR": "1", "COLUMNS": "200"})
        assert "course.ngram" in result.out
        for check in SUITE.checks:
            assert check.summary in result.out.replace("\x1b[0m", "")
        assert "(5 cases)" in result.out

    def test_a_filter_narrows_both(self) -> None:
        """Ids in a pipe, checks on a terminal."""
        assert ["course.ngram::run.bits"] == invoke("list", "ngram", "-k", "run.bits").out.splitlines()
        result = invoke("list", "ngram", "-k", "tok.fit", environment={"FORCE_COLOR": "1"})
        assert ("tok.fit" in result.out, "run.bits" in result.out) == (True, False)

    def test_nothing_to_list_is_an_error(self) -> None:
        """As for `run`."""
        result = invoke("list", "-k", "nothing")
        assert (2, "", ["cai-conform: no check matches -k 'nothing'"]) == (result.code, result.out, result.sentences)


class TestExplain:
    """What it means."""

    @pytest.mark.parametrize(
        "name", dict.fromkeys([*SUITE.check_ids()[::5], *(suite.check_ids()[0] for suite in SUITES)])
    )
    def test_every_check_can_be_explained(self, name: str) -> None:
        """By the id that a report prints; a case says what it catches. Every fifth stands for all."""
        result = invoke("explain", name)
        assert (0, "") == (result.code, result.err)
        assert result.out.startswith(name.partition("[")[0] + ", level ")
        assert "run it alone: cai-conform run " in result.out
        assert ("[" in name) == (f"  [{name.partition('[')[2]}" in result.out)

    @pytest.mark.parametrize("name", [SUITE.identifier, "ngram"])
    def test_every_suite_can_be_explained(self, name: str) -> None:
        """By its id or a unique ending."""
        result = invoke("explain", name)
        assert (0, True) == (result.code, result.out.startswith("course.ngram 1.1.0: neural n-gram"))
        assert all(check.summary in result.out for check in SUITE.checks)

    @pytest.mark.parametrize("name", [*(outcome.value for outcome in Outcome), "FAIL"])
    def test_every_verdict_can_be_explained(self, name: str) -> None:
        """In any case."""
        assert invoke("explain", name).out.startswith(f"{name.lower()}: ")

    @pytest.mark.parametrize("name", [*Level, "t3"])
    def test_every_level_can_be_explained(self, name: str) -> None:
        """With its track."""
        assert invoke("explain", name).out.startswith(f"{name.upper()}: ")

    @pytest.mark.parametrize("name", ["", "nothing", "course.ngram::nothing", "ngram::tok.fit[nothing]"])
    def test_what_is_unknown_leads_to_the_list(self, name: str) -> None:
        """A sentence and the next command."""
        result = invoke("explain", name)
        assert (2, "") == (result.code, result.out)
        assert f"cai-conform: {name!r} names no suite and no check\ntry: cai-conform list\n" == result.err


def test_backends_are_listed_with_the_ways_to_name_one() -> None:
    """The built-in one, files, modules, entry points."""
    result = invoke("backends", "list")
    assert (0, "") == (result.code, result.err)
    assert result.out.startswith("reference  built in\n")
    assert "trace:FILE" in result.out
    assert "cai_conform.backends" in result.out


def test_a_backend_that_cannot_be_loaded_is_listed_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """What its import prints is not among the results."""
    from cai_conformance.backends import registry

    def listed() -> list[registry.ListedBackend]:
        print("importing")
        return [registry.ListedBackend("mine", "mine:backend", "ImportError: no torch")]

    monkeypatch.setattr(registry, "list_backends", listed)
    result = invoke("backends", "list")
    assert result.out.startswith("mine  mine:backend  cannot be used: ImportError: no torch\n")
    assert "importing\n" == result.err


class TestSelftest:
    """The arithmetic against its vectors."""

    def test_it_passes_here(self) -> None:
        """Six functions, sums, products, and the C library."""
        result = invoke("arithmetic", "selftest")
        assert (0, "") == (result.code, result.err)
        assert 8 == result.out.count("strict/1 ")
        assert 8 == result.out.count(": pass (")
        assert "\nlibm/1 on " in result.out

    def test_a_fault_is_exit_code_1_with_its_cases(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each failure on a line of its own."""
        faulty = (SelfTestResult("exp", 2, ("exp(0) is 2, expected 1",)),)
        monkeypatch.setattr(selftest, "run_selftest", lambda: faulty)
        monkeypatch.setattr(selftest, "c_library_selftest", lambda: CLibrarySelfTest("musl", faulty))
        result = invoke("arithmetic", "selftest")
        assert 1 == result.code
        assert result.out.startswith("strict/1 exp: FAIL (2 cases)\n  exp(0) is 2, expected 1\n")
        assert "libm/1 on musl: other bits than the published ones for exp" in result.out


class TestDoctor:
    """The fingerprint of machine and installation."""

    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The self-tests have their own tests."""
        monkeypatch.setattr(fingerprint, "run_selftest", lambda: (SelfTestResult("exp", 2, ()),))

    def test_lines_for_people_and_an_object_for_programs(self) -> None:
        """The same values."""
        lines, found = invoke("doctor"), invoke("doctor", "--json")
        values = json.loads(found.out)
        assert (0, 0) == (lines.code, found.code)
        assert list(values) == [line.split("  ")[0].strip() for line in lines.out.splitlines()]
        assert __version__ == values["cai-conform"]

    def test_something_wrong_is_exit_code_1(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And still a whole fingerprint."""
        monkeypatch.setenv("CAI_CONFORM_GOLDEN", "/nothere")
        result = invoke("doctor")
        assert 1 == result.code
        assert "No golden folder at /nothere" in result.out.splitlines()[-1]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help(command: tuple[str, ...]) -> None:
    """With both spellings of the option, and without running."""
    result = invoke(*command, "--help")
    assert (0, "") == (result.code, result.err)
    assert "Usage: " in result.out
    assert result.out == invoke(*command, "-h").out


def test_help_names_every_command_and_the_exit_codes() -> None:
    """What a newcomer sees first; without arguments too."""
    result = invoke("--help")
    assert "0 conforms, 1 does not, 2 usage or harness trouble" in result.out
    commands = typer.main.get_command(app)
    assert isinstance(commands, Commands)
    names = commands.list_commands(typer.Context(commands))
    assert {command[0] for command in COMMANDS} == set(names)
    assert all(f" {name} " in result.out for name in names)
    assert (2, True) == (invoke().code, result.out.strip() in invoke().out)


def test_the_version_is_that_of_the_package() -> None:
    """One line."""
    assert f"cai-conform {__version__}\n" == invoke("--version").out


@pytest.mark.parametrize(
    "arguments",
    [("nothing",), ("run", "--no"), ("trace",), ("verify",), ("diff", "a"), ("run", "-f", "xml"), ("run", "-j", "0")],
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...]) -> None:
    """On standard error, with the way to the help."""
    result = invoke(*arguments)
    assert (2, "") == (result.code, result.out)
    assert "--help" in result.err
