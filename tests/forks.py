"""The server of `tests/preloaded.py`, and the small program that asks it for a process.

The small program hands its arguments, environment, folder, cores, and standard streams to the
server. The server forks, and the fork runs what was asked for. The small program ends as the fork
does. Where the small program is killed, so is the fork.
"""

import contextlib
import json
import os
import select
import signal
import socket
import sys

IMPORTED = (
    "babel.dates", "matplotlib.figure", "matplotlib.backends.backend_agg", "sacrebleu.metrics",
    "sentencepiece", "torch._dynamo", "torch.distributed.fsdp",
)  # fmt: skip
"""Modules that crosshead imports at their first use; those that are not installed are left out."""

BLANK = "CROSSHEAD_TESTS_BLANK"
"""A variable of the environment with which programs leave the pictures of runs blank."""


def _run(name: str, arguments: list[str]) -> None:
    """Have the server run a program, and end as it does."""
    asked = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "cores": sorted(os.sched_getaffinity(0)),
    }
    line = socket.socket(socket.AF_UNIX)
    line.connect(name)
    words = json.dumps(asked).encode()
    socket.send_fds(line, [len(words).to_bytes(8, "big")], [0, 1, 2])
    line.sendall(words)
    status = int.from_bytes(_exactly(line, 8), "big")
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _exactly(line: socket.socket, size: int) -> bytes:
    """So many bytes; none if the other side has gone."""
    read = b""
    while len(read) < size:
        more = line.recv(size - len(read))
        if not more:
            return b""
        read += more
    return read


def _serve(name: str) -> list[str]:
    """Fork for each program that is asked for; return its arguments, in the fork alone."""
    import gc
    import importlib
    import pkgutil

    import crosshead

    for module in pkgutil.walk_packages(crosshead.__path__, "crosshead."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for each in IMPORTED:
        with contextlib.suppress(ImportError):
            importlib.import_module(each)
    gc.freeze()  # or collections would touch, and so copy, every page
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that follow a program
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(name)
    listening.listen()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        ready, _, _ = select.select([listening, 0], [], [])
        if 0 in ready:
            os._exit(0)
        line, _ = listening.accept()
        if not os.fork():
            listening.close()
            return _follow(line)
        line.close()


def _follow(line: socket.socket) -> list[str]:
    """Fork once more, into the program and into the process that tells how it ended."""
    head, streams, _, _ = socket.recv_fds(line, 8, 3)
    asked = json.loads(_exactly(line, int.from_bytes(head, "big")))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child = os.fork()
    if child:
        for stream in (0, 1, 2, *streams):  # a reader of a pipe waits for all who may write
            os.close(stream)
        handle = os.pidfd_open(child)
        ready, _, _ = select.select([handle, line], [], [])
        if handle not in ready:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        with contextlib.suppress(OSError):
            line.sendall(status.to_bytes(8, "big"))
        os._exit(0)
    line.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(asked["environment"])
    if BLANK in os.environ:
        import crosshead.training.result
        from tests.blank_curve import blank_curve

        crosshead.training.result.draw_training_curve = blank_curve
    os.chdir(asked["folder"])
    os.sched_setaffinity(0, asked["cores"])
    return list(asked["arguments"])


def _execute(arguments: list[str]) -> None:
    """Run a module, a text, or a script to the end of this process, as Python does."""
    import atexit
    import runpy
    import traceback

    code: object = None
    try:
        if arguments[0] == "-m":
            sys.argv, sys.path[0] = arguments[1:], os.getcwd()
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        elif arguments[0] == "-c":
            sys.argv, sys.path[0] = ["-c", *arguments[2:]], os.getcwd()
            exec(arguments[1], {"__name__": "__main__"})
        else:
            sys.argv, sys.path[0] = arguments, os.path.dirname(arguments[0])
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, AttributeError):
            stream.flush()
    os._exit(code if isinstance(code, int) else code is not None)  # without taking modules down


if __name__ == "__main__":
    if sys.argv[1] == "run":
        _run(sys.argv[2], sys.argv[3:])
    else:
        _execute(_serve(sys.argv[2]))
