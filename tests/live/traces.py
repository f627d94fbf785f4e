"""Real traces, and what the peers make of them: $LAPWING_TRACES or ../shared/traces."""

from __future__ import annotations

import csv
import gzip
import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = Path(os.environ.get("LAPWING_TRACES") or ROOT.parent / "shared" / "traces")

SAMPLES = "kineto_tb_plugin/samples"
# The traces of which Holistic Trace Analysis's answers are in the reference. It cannot
# load tl_mi300_resnet_ckpt (bug 9).
OF_HTA = {
    "amd_mi250": "hta/amd_trace/*",
    "cp_alexnet": "hta/critical_path/alexnet/*",
    "cp_event_sync": "hta/critical_path/cuda_event_sync/*",
    "cp_simple_add": "hta/critical_path/simple_add/*",
    "df_index_resolver": "hta/df_index_resolver/*",
    "nccl_data": "hta/nccl_parser_config/*",
    "negative_queue": "hta/negative_queue_length_values_check/*",
    "ns_resolution": "hta/ns_resolution_trace/*",
    "param_dlrm_8rank": "param/dlrm_kineto",
    "resnet50_nw0_span1": f"{SAMPLES}/resnet50_num_workers_0/*",
    "resnet50_nw4_span1": f"{SAMPLES}/resnet50_num_workers_4/*",
    "tl_h100_qwen": "tracelens/traces/h100/*",
}


def trace(pattern: str) -> Path:
    """The one file or folder of that name; the test is skipped where there are none."""
    if not FOLDER.is_dir():
        pytest.skip("no traces on this machine")
    (found,) = FOLDER.glob(pattern)
    return found


def reference(peer: str, name: str, file: str) -> Any:
    """What a peer said of a trace: the rows of a .csv, or whatever a .json holds."""
    path = trace(f"reference/{peer}/{name}/{file}")
    if path.suffix == ".csv":
        with path.open(newline="") as lines:
            return list(csv.DictReader(lines))
    return json.loads(path.read_text())


@cache
def raw(path: Path) -> list[dict[str, Any]]:
    """The events of a trace as they lie in its file."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    events: list[dict[str, Any]] = json.loads(data, strict=False)["traceEvents"]
    return events


@cache
def report(lapwing: str, *words: str | Path) -> dict[str, Any]:
    """The table that `lapwing report WORDS --json` prints: path, view, options."""
    command = [lapwing, "report", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    table: dict[str, Any] = json.loads(done.stdout)
    return table
