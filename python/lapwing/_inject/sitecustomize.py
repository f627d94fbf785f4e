# Lapwing's way into a Python that never heard of it: `lapwing run` puts this folder
# first on PYTHONPATH, and every Python imports `sitecustomize` at start-up.
#
# It starts the agent, takes itself out of sight (sys.path, os.environ), lets the
# program's own sitecustomize run, and never raises or prints: whatever goes wrong, the
# program runs as without us, and the recorder says what is missing.
#
# Any Python may land here, so this must parse on 2.7 as well.


def _lapwing_hide(folder, variable):
    """Take our folder and variable out of what the program can see.

    A launcher may have put our entry of PYTHONPATH anywhere; how it is spelled says
    what the program's own value is (src/agent/layout.h, LW_AGENT_PATH_*).
    """
    import os
    import sys

    environ = os.environ
    data = getattr(environ, "_data", None)  # not unsetenv: children inherit ours
    encode = getattr(environ, "encodekey", lambda key: key)
    colon, nothing = encode(":"), encode("")
    path_key, unset = encode("PYTHONPATH"), encode(folder)
    followed, empty = encode(folder + "/"), encode(folder + "/.")
    value = (environ if data is None else data).get(path_key, nothing)
    entries = value.split(colon)
    own = [
        nothing if entry in (unset, empty) else entry
        for entry in entries
        if entry != followed
    ]
    is_unset = entries == [unset] or own == []
    # In "src:OURS" there would be nothing without us: to Python, the current folder.
    lacks_here = len(own) > 1 and (unset in entries or empty in entries)

    path = []
    here = None
    for entry in sys.path:
        if entry == folder:
            if not lacks_here:
                continue
            try:
                entry = here = os.getcwd()
            except OSError:
                continue
            lacks_here = False
        if entry != here or entry not in path:
            path.append(entry)
    sys.path[:] = path
    for spelling in ("", "/", "/."):
        sys.path_importer_cache.pop(folder + spelling, None)
    if data is None:
        return
    import posix

    for names in (data, posix.environ):
        names.pop(encode(variable), None)
        if is_unset:
            names.pop(path_key, None)
        elif value:
            names[path_key] = colon.join(own)


def _lapwing_refuse(socket_path, sentence):
    """Say on the recorder's socket why this process is not recorded, if it is our
    user's or root's: as src/agent/handover.c does."""
    import os
    import socket
    import stat
    import struct

    trusted = (0, os.geteuid())
    folder = os.lstat(os.path.dirname(socket_path))
    if not stat.S_ISDIR(folder.st_mode) or folder.st_uid not in trusted:
        return
    if folder.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return
    text = sentence.encode("utf-8")
    hello = struct.pack("=QIIII", 0x31474E4957504C4C, 1, 2, len(text), 0)
    s = socket.socket(socket.AF_UNIX, 5)  # SOCK_SEQPACKET; 2.7 has no name for it
    try:
        s.setblocking(False)  # never wait for the recorder
        s.connect(socket_path)
        peer = s.getsockopt(socket.SOL_SOCKET, 17, 12)  # SO_PEERCRED, likewise
        if struct.unpack("3i", peer)[1] in trusted:
            s.send(hello + text)
    finally:
        s.close()


def _lapwing_await_torch(folder, config, agent):
    """Have _lapwing_torch.py run as soon as the program itself has imported torch."""

    def imported(torch):
        from _frozen_importlib_external import SourceFileLoader

        loader = SourceFileLoader("_lapwing_torch", folder + "/_lapwing_torch.py")
        hooks = type(torch)("_lapwing_torch")  # not in sys.modules
        loader.exec_module(hooks)
        hooks.imported(torch, agent, folder, config)

    agent.await_import("torch", imported)


def _lapwing_is_main():
    """Whether this is the process's main interpreter, the only one that is recorded."""
    import sys

    if sys.version_info < (3, 12):
        return True  # _lapwing_start() sees it
    import _thread

    return _thread._is_main_interpreter()


def _lapwing_start(folder, config):
    import sys

    socket_path = config.split(",")[0].partition("=")[2]
    version = "%d.%d.%d" % sys.version_info[:3]
    if sys.version_info < (3, 10):
        _lapwing_refuse(
            socket_path,
            "Python %s is too old: calls can be recorded on 3.10 and later" % version,
        )
        return
    # By hand, so that importlib.util and what it imports stay out of sys.modules; and
    # so does the agent.
    from _frozen_importlib import ModuleSpec, module_from_spec
    from _frozen_importlib_external import ExtensionFileLoader

    path = folder + "/_lapwing.abi3.so"
    loader = ExtensionFileLoader("_lapwing", path)
    agent = module_from_spec(ModuleSpec("_lapwing", loader, origin=path))
    loader.exec_module(agent)
    if agent.running() is not agent:  # a subinterpreter of 3.10 or 3.11
        return
    words = [sys.executable or "", version] + sys.orig_argv
    hello = b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)
    agent.config = config
    agent.follow(folder, config)
    agent.start(config, hello, len(sys.orig_argv), True)
    if agent.wants_torch() or ",torch=" in config:
        _lapwing_await_torch(folder, config, agent)


def _lapwing_explain(config, error):
    """Say why this process is not recorded; if nobody listens, nobody knows."""
    import sys

    version = "%d.%d.%d" % sys.version_info[:3]
    text = str(error) or "(without a reason)"
    if not isinstance(error, ImportError):
        text = "%s: %s" % (type(error).__name__, text)
    try:
        _lapwing_refuse(
            config.split(",")[0].partition("=")[2],
            "Python %s could not be entered: %s" % (version, text),
        )
    except Exception:
        pass


def _lapwing_main():
    import os

    folder = os.path.dirname(os.path.abspath(__file__))
    config = os.environ.get("LAPWING_AGENT")
    try:
        _lapwing_hide(folder, "LAPWING_AGENT")
        if config and _lapwing_is_main():
            _lapwing_start(folder, config)
    except Exception as error:  # the program comes first, always
        if config:
            _lapwing_explain(config, error)


_lapwing_main()
del _lapwing_main, _lapwing_start, _lapwing_explain, _lapwing_refuse, _lapwing_hide
del _lapwing_await_torch, _lapwing_is_main

# Now the program's own, if it has one. Where it has none, the import system must not
# keep this module either: `site` takes this very error as "there is no sitecustomize".
import sys  # noqa: E402

_lapwing_self = sys.modules.pop("sitecustomize", None)
try:
    import sitecustomize  # noqa: F401
except ImportError as error:
    if getattr(error, "name", "sitecustomize") == "sitecustomize":
        if _lapwing_self is not None:
            sys.modules["sitecustomize"] = _lapwing_self
    raise
