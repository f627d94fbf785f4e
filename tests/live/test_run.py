"""`lapwing run`: the program behaves as without us, and we say what happened."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recording import PROGRAMS, calls, run, run_info, self_s, view

MIRROR = str(PROGRAMS / "mirror.py")


def worlds(
    lapwing: str, words: list[str], folder: Path, **options: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What mirror.py says without us and with us."""
    alone = subprocess.run(words, cwd=folder, capture_output=True, text=True, **options)
    with_us = run(lapwing, ["-q", "--", *words], folder, **options)
    assert with_us.returncode == alone.returncode
    assert with_us.stderr == alone.stderr
    first, _, rest = alone.stdout.partition("\n")
    our_first, _, our_rest = with_us.stdout.partition("\n")
    assert our_rest == rest
    return json.loads(first), json.loads(our_first)


def test_the_program_sees_the_world_as_without_us(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    words = [python, MIRROR, "a b", "--flag", "ü", "", "exit", "5"]
    alone, with_us = worlds(lapwing, words, tmp_path)
    assert with_us == alone


def test_the_programs_own_paths_are_kept(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('customised')\n")
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:/nowhere"}
    done = run(lapwing, ["-q", "--", python, MIRROR], tmp_path, env=env)
    first, second = done.stdout.splitlines()
    assert first == "customised"
    world = json.loads(second)
    assert world["environ"]["PYTHONPATH"] == env["PYTHONPATH"]
    assert "LAPWING_AGENT" not in world["environ"]
    assert world["path"][1:3] == [str(tmp_path), "/nowhere"]


def test_standard_input_reaches_the_program(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    words = ["-q", "--", python, MIRROR, "stdin"]
    done = run(lapwing, words, tmp_path, input="one\ntwo\n")
    assert done.stdout.endswith("read one\ntwo\n\n")


def test_a_script_runs_with_the_python3_on_path(lapwing: str, tmp_path: Path) -> None:
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "python3").symlink_to(sys.executable)
    env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    done = run(lapwing, ["-q", MIRROR, "-x"], tmp_path, env=env)
    world = json.loads(done.stdout)
    assert world["orig_argv"] == ["python3", MIRROR, "-x"]
    assert calls(lapwing, tmp_path)["world"] == 1


def test_a_module_runs_as_python_m_does(lapwing: str, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    shutil.copy(MIRROR, package / "tool.py")
    done = run(lapwing, ["-q", "-m", "package.tool", "-m"], tmp_path)
    world = json.loads(done.stdout)
    assert world["orig_argv"][1:] == ["-m", "package.tool", "-m"]
    assert world["argv"][1:] == ["-m"]
    assert calls(lapwing, tmp_path)["world"] == 1


def test_a_folder_with_a_main_runs_with_python(lapwing: str, tmp_path: Path) -> None:
    folder = tmp_path / "tool"
    folder.mkdir()
    (folder / "__main__.py").write_text("def f(): print('ran')\nf()\n")
    assert run(lapwing, ["-q", "tool"], tmp_path).stdout == "ran\n"
    assert calls(lapwing, tmp_path)["f"] == 1


def test_pythons_inside_another_command_are_recorded(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = f"{python} {MIRROR} >/dev/null 2>&1; exit 9"
    done = run(lapwing, ["-q", "--", "sh", "-c", script], tmp_path)
    assert done.returncode == 9
    assert calls(lapwing, tmp_path)["world"] == 1
    assert run_info(tmp_path)["exit_code"] == 9


@pytest.mark.parametrize("code", [0, 1, 2, 3, 125, 255])
def test_the_exit_code_is_the_programs(
    lapwing: str, python: str, tmp_path: Path, code: int
) -> None:
    words = ["--", python, MIRROR, "exit", str(code)]
    assert run(lapwing, words, tmp_path).returncode == code
    assert run_info(tmp_path)["exit_code"] == code


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["nosuch.py"], 127, "nosuch.py: no such file"),
        (["no-such-command"], 127, "no-such-command: no such command"),
        (["./nowhere/x"], 127, "./nowhere/x: cannot be run: No such file or directory"),
        (["/etc/passwd"], 126, "/etc/passwd: cannot be run: Permission denied"),
    ],
)
def test_what_cannot_be_run_is_one_sentence_and_leaves_nothing(
    lapwing: str, tmp_path: Path, words: list[str], code: int, sentence: str
) -> None:
    done = run(lapwing, words, tmp_path)
    assert done.returncode == code
    assert done.stderr == f"lapwing: {sentence}\n"
    assert not (tmp_path / "x.lap").exists()


def test_a_folder_that_cannot_be_written_stops_us_before_the_program(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    for output in ("/proc/x.lap", "/proc/x.prof"):
        done = subprocess.run(
            [lapwing, "run", "-o", output, "--", python, MIRROR],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 125
        assert done.stdout == ""
        assert done.stderr.startswith("lapwing: ") and done.stderr.count("\n") == 1
        assert output in done.stderr


def test_a_run_is_not_written_over(lapwing: str, python: str, tmp_path: Path) -> None:
    words = ["--", python, MIRROR]
    assert run(lapwing, words, tmp_path).returncode == 0
    done = run(lapwing, words, tmp_path)
    assert done.returncode == 125
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("option", ["I", "S", "E"])
def test_a_python_that_keeps_us_out_is_explained(
    lapwing: str, python: str, tmp_path: Path, option: str
) -> None:
    words = ["--", python, f"-{option}", "-c", "print(1)"]
    done = run(lapwing, words, tmp_path)
    assert (done.returncode, done.stdout) == (0, "1\n")
    assert f"Python was started with -{option}" in done.stderr


def test_a_program_without_python_is_explained(lapwing: str, tmp_path: Path) -> None:
    done = run(lapwing, ["--", "echo", "hi"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert "echo started no Python" in done.stderr


def test_the_summary_is_on_stderr_and_quiet_is_quiet(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    words = [lapwing, "run", "--calls", "--", python, "-c", "def f(): pass\nf()"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == ""
    assert "most self time" in done.stderr
    assert ".lapwing/runs/" in done.stderr
    words.insert(2, "-q")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert len(list((tmp_path / ".lapwing" / "runs").glob("*.lap"))) == 2


def test_another_format_is_written_as_well(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    import pstats

    program = [python, "-c", "def f(): pass\nf()\nf()"]
    words = [lapwing, "run", "--calls", "-q", "-o", "out.prof", "--", *program]
    subprocess.run(words, cwd=tmp_path, check=True)
    stats: Any = pstats.Stats(str(tmp_path / "out.prof"))
    assert {key[2]: row[1] for key, row in stats.stats.items()}["f"] == 2


def test_run_json_says_what_ran(lapwing: str, python: str, tmp_path: Path) -> None:
    for words in (
        ["git", "init", "-q", "."],
        ["git", "add", "a"],
        ["git", "-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "1"],
    ):
        (tmp_path / "a").write_text("1")
        subprocess.run(words, cwd=tmp_path, check=True)
    (tmp_path / "a").write_text("2")
    words = ["--", python, MIRROR, "--lr", "0.1"]
    env = {**os.environ, "RANK": "3"}
    assert run(lapwing, words, tmp_path, env=env).returncode == 0
    info = run_info(tmp_path)
    commit = subprocess.check_output(
        ["git", "rev-parse", "HEAD"], cwd=tmp_path, text=True
    )
    assert info["facts"]["commit"] == commit.strip()
    assert info["facts"]["dirty"] == "yes"
    assert info["facts"]["cwd"] == str(tmp_path)
    assert info["arguments"] == words[1:]
    assert info["parameters"] == {"lr": "0.1"}
    assert info["rank"] == 3
    assert info["state"] == "finished"
    assert info["clock"]["end_ns"] > info["clock"]["start_ns"] > 0


def test_time_asleep_in_a_call_is_its_time(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = (
        "import threading, time\n"
        "def nap(): time.sleep(0.5)\n"
        "t = threading.Thread(target=nap)\n"
        "t.start(); t.join()\n"
    )
    run(lapwing, ["-q", "--", python, "-c", script], tmp_path)
    assert len(view(lapwing, tmp_path, "threads")["rows"]) == 2
    assert 0.49 < self_s(lapwing, tmp_path, "nap") < 0.7


def test_builtins_are_recorded_when_asked_for(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = "def f():\n    for i in range(50): len('x')\nf()"
    run(lapwing, ["-q", "--c-calls", "--", python, "-c", script], tmp_path)
    counts = calls(lapwing, tmp_path)
    assert counts["<built-in method builtins.len>"] >= 50
    assert counts["f"] == 1


def test_a_timeline_leaves_out_calls_shorter_than_asked(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = (
        "import time\n"
        "def short(): pass\n"
        "def long(): time.sleep(0.03)\n"
        "for i in range(100): short()\n"
        "for i in range(3): long()\n"
    )
    options = ["-q", "--calls=timeline", "--min-span", "20ms"]
    run(lapwing, [*options, "--", python, "-c", script], tmp_path)
    assert calls(lapwing, tmp_path)["short"] == 100
    short = sum(file.stat().st_size for file in (tmp_path / "x.lap").glob("*.seg"))
    shutil.rmtree(tmp_path / "x.lap")
    run(lapwing, ["-q", "--calls=timeline", "--", python, "-c", script], tmp_path)
    assert short < sum(f.stat().st_size for f in (tmp_path / "x.lap").glob("*.seg"))


def test_min_span_without_a_timeline_is_a_mistake(lapwing: str, tmp_path: Path) -> None:
    done = run(lapwing, ["--min-span", "1ms", "true"], tmp_path)
    assert done.returncode == 2
    assert done.stderr == "lapwing: --min-span is for --calls=timeline\n"


def test_a_run_within_a_run_is_its_own(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    script = "def f(): pass\nf()"
    inner = [
        lapwing,
        "run",
        "--calls",
        "-q",
        "-o",
        "inner.lap",
        "--",
        python,
        "-c",
        script,
    ]
    assert run(lapwing, ["-q", "--", *inner], tmp_path).returncode == 0
    assert calls(lapwing, tmp_path)["f"] == 0
    (tmp_path / "x.lap").rename(tmp_path / "outer.lap")
    (tmp_path / "inner.lap").rename(tmp_path / "x.lap")
    assert calls(lapwing, tmp_path)["f"] == 1
