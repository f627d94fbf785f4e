"""What is read of real traces, event by event, beside what Python's json reads.

LAPWING_TRACE_DRIVER names tests/programs/trace_driver.c as it was built; by default it
is the one that `make` built.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import traces

Row = dict[str, Any]
Rows = dict[str, list[Row]]

KINDS = {
    **dict.fromkeys(["cpu_op", "Operator"], 1),
    "user_annotation": 2,
    "python_function": 3,
    **dict.fromkeys(["cuda_runtime", "cuda_driver", "Runtime"], 4),
    **dict.fromkeys(["kernel", "Kernel"], 6),
    **dict.fromkeys(["gpu_memcpy", "Memcpy"], 7),
    **dict.fromkeys(["gpu_memset", "Memset"], 8),
    "gpu_user_annotation": 9,
    "cuda_sync": 10,
}
FILES = [
    "hta/amd_trace/*.gz",
    "hta/cpu_only_orig/*.gz",
    "hta/critical_path/cuda_event_sync/*.gz",
    "hta/critical_path/cuda_event_sync_multi_stream/*.gz",
    "hta/cupti_profiler/*.gz",
    "hta/df_index_resolver/*.gz",
    "hta/large_integer_trace/*.gz",
    "hta/nccl_parser_config/*.gz",
    "hta/ns_resolution_trace/*.gz",
    "hta/with_gpu_user_annotation/*.gz",
    "kineto_tb_plugin/samples/resnet50_num_workers_4/*.gz",
    "kineto_tb_plugin/test/gpu_metrics_expected.json",
    "lightning_ref/*.json",
    "param/dlrm_kineto/worker3_*",
    "torch213_cpu/all.pt.trace.json",
    "torch213_cpu/ondemand_daemon_shapes_stack.json",
    "tracelens/traces/h100/*.gz",
    "tracelens/traces/mi210/gpu_only_trace/*.gz",
    "tracelens/traces/mi300/*.gz",
    "tracelens/traces/torch_compile_triton/*.gz",
]


def driver() -> Path:
    given = os.environ.get("LAPWING_TRACE_DRIVER")
    path = Path(given) if given else traces.ROOT / "build" / "release" / "trace_driver"
    assert path.exists(), f"{path} is not there; run make"
    return path


def ours(*words: str | Path) -> Rows:
    done = subprocess.run([driver(), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows: Rows = defaultdict(list)
    for line in done.stdout.splitlines():
        row = json.loads(line)
        rows[row["is"]].append(row)
    return rows


def plain(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def ns(us: object) -> int:
    return round(Decimal(str(us)) * 1000)


def whole(value: object, none: int = -1) -> int:
    """As a number that is not below zero; else NONE."""
    try:
        number = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return none
    return number if number >= 0 else none


def kind_of(event: Row) -> int:
    kind = KINDS.get(event.get("cat", ""), 0)
    return 2 if kind == 1 and event["name"].startswith("ProfilerStep#") else kind


def shapes(text: str) -> str:
    return text.replace(" ", "")


def their_key(event: Row) -> tuple[object, ...]:
    args = event.get("args") or {}
    kind = kind_of(event)
    is_op, is_work = kind in (1, 2), kind == 4 or kind >= 6
    dims = args.get("Input Dims", args.get("Input dims"))
    head = (
        kind,
        event.get("cat", ""),
        event["name"],
        str(event["pid"]),
        str(event["tid"]),
        ns(event["ts"]),
        ns(event.get("dur", 0)),
        whole(args.get("correlation"), 0),
        whole(args.get("External id", args.get("external id")), 0),
    )
    if is_op:
        dump = json.dumps(dims, separators=(",", ":")) if dims is not None else ""
        return (
            *head,
            dump,
            args.get("Call stack", ""),
            whole(args.get("Sequence number")),
            args.get("Collective name", ""),
        )
    if is_work:
        return (
            *head,
            whole(args.get("device")),
            whole(args.get("stream")),
            whole(args.get("bytes", args.get("size"))),
            tuple(args.get("grid", (0, 0, 0))),
            float(args.get("blocks per SM", -1)),
            args.get("Collective name", ""),
        )
    if kind == 3 and "Python id" in args:
        keys = ["Python id", "Python parent id", "Python module id"]
        return (*head, *(whole(args.get(key)) for key in keys))
    return head


def our_key(event: Row, tracks: list[Row]) -> tuple[object, ...]:
    kind = event["kind"]
    track = tracks[event["track"]]
    head = (
        kind,
        event["category"],
        event["name"],
        track["pid"],
        track["tid"],
        event["start"],
        event["duration"],
        event["correlation"],
        event["external"],
    )
    if kind in (1, 2):
        return (
            *head,
            shapes(event.get("shapes", "")),
            event.get("stack", ""),
            event.get("sequence", -1),
            event.get("collective", ""),
        )
    if kind == 4 or kind >= 6:
        return (
            *head,
            event.get("device", -1),
            event.get("stream", -1),
            event.get("bytes", -1),
            tuple(event.get("grid", (0, 0, 0))),
            event.get("blocks", -1.0),
            event.get("collective", ""),
        )
    return (*head, *event.get("python", ()))


@pytest.mark.parametrize("pattern", FILES)
def test_every_event_is_read_as_it_lies_in_the_file(pattern: str) -> None:
    path = traces.trace(pattern)
    document = json.loads(plain(path), strict=False, parse_float=Decimal)
    events = document["traceEvents"]
    rows = ours(path)

    theirs = Counter(their_key(event) for event in events if event["ph"] == "X")
    found = Counter(our_key(event, rows["track"]) for event in rows["event"])
    assert found - theirs == Counter()
    assert theirs - found == Counter()
    assert rows["loss"] == []

    memory = [event for event in events if event["name"] == "[memory]"]
    assert Counter(
        (row["time"], row["bytes"], row["address"]) for row in rows["memory"]
    ) == Counter(
        (ns(event["ts"]), event["args"]["Bytes"], event["args"].get("Addr", 0))
        for event in memory
    )
    backward = [event for event in events if event.get("cat") == "fwdbwd"]
    assert len(rows["flow"]) == sum(event["ph"] == "f" for event in backward)

    (rank,) = rows["rank"]
    assert rank["events"] == len(events)
    assert rank["base"] == document.get("baseTimeNanoseconds", 0)
    about = document.get("distributedInfo", {})
    if "rank" in about:
        assert rank["rank"] == about["rank"]
    assert rank["world_size"] == about.get("world_size", -1)
    gpus = document.get("deviceProperties", document.get("computeProperties", []))
    assert [(row["name"], row["sms"]) for row in rows["gpu"]] == [
        (gpu["name"], gpu.get("numSms", -1)) for gpu in gpus
    ]


def test_kernels_are_joined_to_the_call_with_their_correlation() -> None:
    path = traces.trace("hta/df_index_resolver/*.gz")
    rows = ours(path)["event"]
    kernels = [row for row in rows if 6 <= row["kind"] <= 8]
    joined = [row for row in kernels if row["parent"] >= 0]
    assert len(joined) == len(kernels) == 22290
    for row in joined:
        call = rows[row["parent"]]
        assert call["kind"] == 4
        assert call["correlation"] == row["correlation"]


def test_a_folder_of_ranks_is_one_trace() -> None:
    folder = traces.trace("param/dlrm_kineto")
    rows = ours(folder)
    assert [row["rank"] for row in rows["rank"]] == list(range(8))
    assert rows["loss"] == []
    files = sorted(folder.glob("*.json"))
    assert len(rows["event"]) == sum(
        event["ph"] == "X"
        for path in files
        for event in json.loads(path.read_bytes())["traceEvents"]
    )
    some = ours(files[2], files[0])
    assert [row["rank"] for row in some["rank"]] == [0, 2]
    assert [(row["count"], row["unit"]) for row in some["loss"]] == [(6, "ranks")]


def test_arguments_are_kept_when_they_are_wanted() -> None:
    path = traces.trace("torch213_cpu/plain.pt.trace.json")
    events = json.loads(path.read_bytes())["traceEvents"]
    wanted = Counter(
        json.dumps(event.get("args", {}), sort_keys=True)
        for event in events
        if event["ph"] == "X"
    )
    found = Counter(
        json.dumps(json.loads(row["args"] or "{}"), sort_keys=True)
        for row in ours("--args", path)["event"]
    )
    assert found == wanted


def test_a_file_cut_anywhere_gives_every_event_before(tmp_path: Path) -> None:
    text = plain(traces.trace("torch213_cpu/plain.pt.trace.json"))
    first = text.index(b"traceEvents") + 1000
    cut = tmp_path / "cut.json"
    places = random.Random(7).sample(range(first, len(text) - 40), 25)
    for place in sorted(places):
        cut.write_bytes(text[:place])
        rows = ours(cut)
        before = text[:place].count(b'"ph": "X"')
        assert before - 1 <= len(rows["event"]) <= before
        assert [row["unit"] for row in rows["loss"]] == ["files cut short"]


def test_bare_quotes_and_bad_bytes_cost_one_event_at_most(tmp_path: Path) -> None:
    text = plain(traces.trace("torch213_cpu/plain.pt.trace.json"))
    count = text.count(b'"ph": "X"')
    broken = tmp_path / "broken.json"
    for seed in range(15):
        rng = random.Random(seed)
        bad = bytearray(text)
        for _ in range(20):
            bad[rng.randrange(2000, len(bad) - 2000)] = rng.choice(b'"\\\x01}{],x')
        broken.write_bytes(bad)
        rows = ours(broken)
        lost = sum(
            row["count"] for row in rows["loss"] if row["unit"] in ("events", "spans")
        )
        assert len(rows["event"]) >= count - 20
        assert lost <= 20


def test_a_pipe_is_read_as_a_file_is() -> None:
    path = traces.trace("hta/nccl_parser_config/*.gz")
    with path.open("rb") as file:
        piped = subprocess.run(["cat"], stdin=file, capture_output=True).stdout
    done = subprocess.run([driver(), "-"], input=piped, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b'{"is": "event"') == len(ours(path)["event"])


def repeat(out: Path, times: int) -> int:
    """A long trace: events of ten minutes, again and again. Returns its bytes."""
    ops = "".join(
        f'{{"ph":"X","cat":"cpu_op","name":"aten::op{i}","pid":1,"tid":1,'
        f'"ts":{i}.5,"dur":0.25,"args":{{"External id":{i},"Ev Idx":{i},'
        f'"Call stack":"{"file.py(12): function;" * 40}"}}}},\n'
        for i in range(1000)
    )
    with out.open("w") as file:
        file.write('{"schemaVersion":1,"traceEvents":[\n')
        for _ in range(times):
            file.write(ops)
        file.write('{"ph":"X","ts":1,"name":"last"}]}')
    return out.stat().st_size


def test_memory_is_that_of_the_events_not_of_the_bytes(tmp_path: Path) -> None:
    """150,000 events in 146 MB: an event is 64 bytes and what is known of an op 56."""
    size = repeat(tmp_path / "long.json", 150)
    assert size > 140 << 20
    command: list[str | Path] = [
        "sh",
        "-c",
        'ulimit -v 100000; exec "$0" "$1" > /dev/null',
        driver(),
        tmp_path / "long.json",
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
