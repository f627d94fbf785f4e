"""Where there can be no recording, the program runs all the same, and why is said."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from recording import run_info

# Says what would be different if we were still around it. A shell, because any user can
# run one, and by itself: where no further process is allowed, there is no grep.
PROGRAM = """
echo ran; ulimit -n
while read line; do
    case $line in Sig[BI]*) echo "$line";; esac
done < /proc/self/status
echo /proc/self/fd/*
exit 3
"""


def run_in(
    folder: Path, words: list[str], prepare: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=folder,
        capture_output=True,
        text=True,
        preexec_fn=prepare,
        timeout=60,
    )


def check_unrecorded(
    lapwing: str,
    folder: Path,
    reason: str,
    options: tuple[str, ...] = (),
    prepare: Callable[[], None] | None = None,
) -> None:
    """The program has run as it would have without us, and one line says why."""
    words = ["sh", "-c", PROGRAM]
    bare = run_in(folder, words, prepare)
    done = run_in(folder, [lapwing, "run", *options, "--", *words], prepare)
    assert bare.stdout.startswith("ran\n")
    assert done.stdout == bare.stdout
    assert done.returncode == bare.returncode == 3
    assert done.stderr.count("\n") == 1
    assert " runs unrecorded: " in done.stderr
    assert reason in done.stderr


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "full"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small file system")
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("nothing can be mounted here")
    (folder / "fill").write_bytes(b"")
    with (folder / "fill").open("wb", buffering=0) as file:
        while True:
            try:
                file.write(b"x" * 4096)
            except OSError:
                break
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_the_program_unrecorded(
    lapwing: str, full_disk: Path
) -> None:
    remedy = "free some space, or name another place with -o"
    check_unrecorded(lapwing, full_disk, remedy)
    options = ("-o", str(full_disk / "x.lap"))
    check_unrecorded(lapwing, full_disk, "No space left on device", options)
    assert not list(full_disk.rglob("*.lap"))


def become_nobody() -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)


def test_a_folder_that_may_not_be_written_leaves_the_program_unrecorded(
    lapwing: str, tmp_path: Path
) -> None:
    for folder in [tmp_path, *tmp_path.parents]:
        if folder != Path("/tmp") and folder.stat().st_uid == os.geteuid():
            folder.chmod(0o755)
    reason = "cannot make the folder .lapwing: Permission denied (name another place"
    check_unrecorded(lapwing, tmp_path, reason, prepare=become_nobody)


def test_a_folder_that_is_gone_leaves_the_program_unrecorded(
    lapwing: str, python: str, tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    reason = "cannot make the folder .lapwing: No such file or directory (name"

    def leave() -> None:
        os.rmdir(gone)

    for words in ([], [lapwing, "run", "--"]):
        gone.mkdir(exist_ok=True)
        done = run_in(gone, [*words, python, "-c", "print('ran')"], leave)
        assert done.stdout == "ran\n"
        assert done.returncode == 0
        assert (reason in done.stderr) == bool(words)


@pytest.mark.parametrize("limit", [12, 11])
def test_too_few_descriptors_leave_the_program_unrecorded(
    lapwing: str, tmp_path: Path, limit: int
) -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    check_unrecorded(lapwing, tmp_path, "oo many open files", prepare=lower)
    assert not list(tmp_path.rglob("*.lap"))


def test_no_further_process_leaves_the_program_unrecorded(
    lapwing: str, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("another user has processes already")
    tmp_path.chmod(0o777)
    for folder in tmp_path.parents:
        if folder != Path("/tmp") and folder.stat().st_uid == 0:
            folder.chmod(0o755)

    def alone() -> None:
        resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        os.setgroups([])
        os.setgid(65533)
        os.setuid(65533)  # who has no other process

    check_unrecorded(lapwing, tmp_path, "", ("--no-sample",), alone)


@pytest.mark.parametrize("kb", [1, 4, 100])
def test_files_that_may_not_grow_cost_the_recording_only(
    lapwing: str, python: str, tmp_path: Path, kb: int
) -> None:
    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (kb * 1000, kb * 1000))

    words = [lapwing, "run", "--rate=5000", "-o", "x.lap", "--", python, "-c"]
    script = (
        "import signal, time\n"
        "def deeper(n):\n"
        "    end = time.monotonic() + 0.01\n"
        "    while time.monotonic() < end: pass\n"
        "    if n: deeper(n - 1)\n"
        "deeper(150)\n"
        "print(signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN)\n"  # CPython's own
        "raise SystemExit(4)\n"
    )
    done = run_in(tmp_path, [*words, script], lower)
    assert (done.stdout, done.returncode) == ("True\n", 4)
    if kb < 100:
        assert "files may not grow any further here (raise the limit: ulimit -f)" in (
            done.stderr
        )
    shell = "kill -XFSZ $$"
    done = run_in(tmp_path, [lapwing, "run", "-q", "--", "sh", "-c", shell], lower)
    assert done.returncode == -25


@pytest.mark.parametrize("variable", ["HOME", "TMPDIR"])
def test_surroundings_that_are_missing_do_not_matter(
    lapwing: str, python: str, tmp_path: Path, variable: str
) -> None:
    words = ["env", f"{variable}=/no/such/folder", lapwing, "run", "--calls", "-q"]
    words += ["-o", "x.lap", "--", python, "-c", "print('ran')"]
    done = run_in(tmp_path, words)
    assert (done.stdout, done.stderr, done.returncode) == ("ran\n", "", 0)
    assert run_info(tmp_path)["state"] == "finished"
