"""What a program tells of itself: lapwing.step(), phase(), mark(), counter().

They are the agent's own functions, so that nothing is paid for where nobody is
recording; here is only what decorating needs. What decorates is plain functions: dynamo
and inspect see through them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Any

from lapwing import _compiled
from lapwing._agent import agent

_compiled.hide()

step = agent.step
phase = agent.phase
mark = agent.mark
counter = agent.counter


def get_include() -> str:
    """The folder of lapwing.h, for C and C++ compilers."""
    return str(Path(__file__).parent / "include")


def decorate(phase: agent.Phase | None, function: Callable[..., Any]) -> Any:
    """FUNCTION with PHASE (None: one of its own name) around each call.

    A coroutine is in its phase from its first step to its end, a generator while it
    runs: what the program does between two values is not the generator's doing.
    """
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"a phase decorates functions, not {function!r}")
    if phase is None:
        phase = agent.phase(getattr(function, "__qualname__", "function"))
    if inspect.iscoroutinefunction(function):
        wrapper: Callable[..., Any] = _coroutine_function(phase, function)
    elif inspect.isgeneratorfunction(function):
        wrapper = _generator_function(phase, function)
    elif inspect.isasyncgenfunction(function):
        wrapper = _async_generator_function(phase, function)
    else:
        wrapper = _function(phase, function)
    return functools.update_wrapper(wrapper, function)


def _function(phase: agent.Phase, function: Callable[..., Any]) -> Callable[..., Any]:
    is_recording = agent.is_recording

    def call(*args: Any, **kwargs: Any) -> Any:
        if not is_recording():
            return function(*args, **kwargs)
        with phase:
            return function(*args, **kwargs)

    return call


def _coroutine_function(
    phase: agent.Phase, function: Callable[..., Any]
) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        with agent.phase(phase.name):  # each its own: tasks end in any order
            return await function(*args, **kwargs)

    return call


def _generator_function(
    phase: agent.Phase, function: Callable[..., Any]
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        resume = functools.partial(next, generator)
        while True:
            try:
                with phase:
                    value = resume()
            except StopIteration as end:
                return end.value
            try:
                sent = yield value
            except GeneratorExit:
                with phase:
                    generator.close()
                raise
            except BaseException as error:
                resume = functools.partial(generator.throw, error)
            else:
                resume = functools.partial(generator.send, sent)

    return call


def _async_generator_function(
    phase: agent.Phase, function: Callable[..., Any]
) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*args, **kwargs)
        resume = generator.__anext__
        while True:
            try:
                with agent.phase(phase.name):
                    value = await resume()
            except StopAsyncIteration:
                return
            try:
                sent = yield value
            except GeneratorExit:
                with agent.phase(phase.name):
                    await generator.aclose()
                raise
            except BaseException as error:
                resume = functools.partial(generator.athrow, error)
            else:
                resume = functools.partial(generator.asend, sent)

    return call
