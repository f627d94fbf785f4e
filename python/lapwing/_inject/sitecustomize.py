# Lapwing's way into a Python that never heard of it: `lapwing run` puts this folder
# first on PYTHONPATH, and every Python imports `sitecustomize` at start-up.
#
# It starts the agent, takes itself out of sight (sys.path, os.environ), lets the
# program's own sitecustomize run, and never raises or prints: whatever goes wrong, the
# program runs as without us, and the recorder says what is missing.
#
# Any Python may land here, so this must parse on 2.7 as well.


def _lapwing_hide(folder, variable):
    """Take our folder and variable out of what the program can see."""
    import os
    import sys

    sys.path[:] = [p for p in sys.path if p != folder]
    sys.path_importer_cache.pop(folder, None)
    environ = os.environ
    data = getattr(environ, "_data", None)  # not unsetenv: children inherit ours
    if data is None:
        return
    encode = getattr(environ, "encodekey", lambda key: key)
    path_key = encode("PYTHONPATH")
    own = encode(folder)
    rest = data.get(path_key, own)[len(own) + 1 :]
    import posix

    for names in (data, posix.environ):
        names.pop(encode(variable), None)
        names.pop(path_key, None)
        if rest:
            names[path_key] = rest


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
        s.settimeout(1)
        s.connect(socket_path)
        peer = s.getsockopt(socket.SOL_SOCKET, 17, 12)  # SO_PEERCRED, likewise
        if struct.unpack("3i", peer)[1] in trusted:
            s.send(hello + text)
    finally:
        s.close()


def _lapwing_await_torch(folder, config, agent):
    """Have _lapwing_torch.py run as soon as the program itself has imported torch.

    Until then there is one more finder, which finds nothing: it asks the others, and of
    torch's loader it has the agent say when the module's code has run. Neither leaves a
    trace in a traceback, in sys.modules or, afterwards, anywhere else.
    """
    import sys

    class Finder(object):
        def find_spec(self, name, path=None, target=None):
            if name != "torch":
                return None
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if finder is not self and find else None
                if spec is not None:
                    _watch(spec.loader)
                    return spec
            return None

    awaiting = Finder()

    def _watch(loader):
        def imported():
            vars(loader).pop("exec_module", None)
            if awaiting in sys.meta_path:
                sys.meta_path.remove(awaiting)
                _run(sys.modules["torch"])

        try:
            if "exec_module" not in vars(loader):
                loader.exec_module = agent.after(loader.exec_module, imported)
        except Exception:  # a loader of its own kind: torch is not seen
            pass

    def _run(torch):
        from _frozen_importlib_external import SourceFileLoader

        loader = SourceFileLoader("_lapwing_torch", folder + "/_lapwing_torch.py")
        hooks = type(sys)("_lapwing_torch")  # not in sys.modules
        loader.exec_module(hooks)
        hooks.imported(torch, agent, folder, config)

    sys.meta_path.insert(0, awaiting)


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
    path = folder + "/_lapwing.abi3.so"
    try:
        # By hand, so that importlib.util and what it imports stay out of sys.modules.
        from _frozen_importlib import ModuleSpec
        from _frozen_importlib_external import ExtensionFileLoader

        loader = ExtensionFileLoader("_lapwing", path)
        agent = loader.create_module(ModuleSpec("_lapwing", loader, origin=path))
        loader.exec_module(agent)
        sys.modules["_lapwing"] = agent
    except ImportError as error:
        _lapwing_refuse(socket_path, "Python %s: %s" % (version, error))
        return
    words = [sys.executable or "", version] + sys.orig_argv
    hello = b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)
    agent.config = config
    agent.follow(folder, config)
    agent.start(config, hello, len(sys.orig_argv), True)
    if agent.wants_torch() or ",torch=" in config:
        _lapwing_await_torch(folder, config, agent)


def _lapwing_main():
    import os

    folder = os.path.dirname(os.path.abspath(__file__))
    config = os.environ.get("LAPWING_AGENT")
    try:
        _lapwing_hide(folder, "LAPWING_AGENT")
        if config:
            _lapwing_start(folder, config)
    except Exception:  # the program comes first, always
        pass


_lapwing_main()
del _lapwing_main, _lapwing_start, _lapwing_refuse, _lapwing_hide
del _lapwing_await_torch

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
