"""Kills a process in front of any of the system calls by which it changes files.

The kernel tells the parent of each such call (seccomp, user notification), in whatever thread and
library it is made, and waits: the parent lets it pass or kills.
"""

import ctypes
import fcntl
import os
import platform
import select
import signal
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

_CALLS = {
    "x86_64": {
        "open": 2, "openat": 257, "creat": 85, "write": 1, "pwrite64": 18, "writev": 20,
        "fsync": 74, "fdatasync": 75, "truncate": 76, "ftruncate": 77, "rename": 82,
        "renameat": 264, "renameat2": 316, "mkdir": 83, "mkdirat": 258, "rmdir": 84, "unlink": 87,
        "unlinkat": 263, "link": 86, "linkat": 265, "symlink": 88, "symlinkat": 266,
        "sendfile": 40, "copy_file_range": 326, "seccomp": 317,
    },
    "aarch64": {
        "openat": 56, "write": 64, "pwrite64": 68, "writev": 66, "fsync": 82, "fdatasync": 83,
        "truncate": 45, "ftruncate": 46, "renameat": 38, "renameat2": 276, "mkdirat": 34,
        "unlinkat": 35, "linkat": 37, "symlinkat": 36, "sendfile": 71, "copy_file_range": 285,
        "seccomp": 277,
    },
}  # fmt: skip
"""The numbers of the calls, by machine."""

_NUMBERS = _CALLS.get(platform.machine(), {}) if platform.system() == "Linux" else {}
_NAMES = {number: name for name, number in _NUMBERS.items()}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_ALLOW, _TELL = 0x7FFF0000, 0x7FC00000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte),
        ("k", ctypes.c_uint),
    ]  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Instruction))]


def _filter() -> list[tuple[int, int, int, int]]:
    """A program that tells of the calls above; of `open` only where it is for writing."""
    load, equal, has_bits, answer = 0x20, 0x15, 0x45, 0x06
    program = [(load, 0, 0, 0)]
    for name, number in _NUMBERS.items():
        if name == "seccomp":
            continue
        if name in ("open", "openat"):
            flags = 16 + 8 * (1 if name == "open" else 2)
            program += [
                (equal, 0, 4, number), (load, 0, 0, flags), (has_bits, 0, 1, _WRITING),
                (answer, 0, 0, _TELL), (answer, 0, 0, _ALLOW),
            ]  # fmt: skip
        else:
            program += [(equal, 0, 1, number), (answer, 0, 0, _TELL)]
    return [*program, (answer, 0, 0, _ALLOW)]


def _listener() -> int:
    """Let the kernel tell of this process's calls; a file descriptor to hear of them."""
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(38, 1, 0, 0, 0)  # no new privileges, without which no filter is taken
    instructions = _filter()
    array = (_Instruction * len(instructions))(*(_Instruction(*each) for each in instructions))
    program = _Program(len(instructions), array)
    return int(library.syscall(_NUMBERS["seccomp"], 1, 8, ctypes.byref(program)))


def can_tell() -> bool:
    """Return whether this system lets a process hear of another's system calls."""
    if not _NUMBERS:
        return False
    child = os.fork()
    if not child:
        os._exit(0 if _listener() >= 0 else 1)
    return os.waitpid(child, 0)[1] == 0


def killed(work: Callable[[], object], before: int | None) -> list[str]:
    """Do `work` in a process that is killed in front of call number `before`, counted from 0.

    Returns:
        The names of the calls that were made.
    """
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        try:
            listener = _listener()
            socket.send_fds(theirs, [b"x"], [listener])
            os.close(listener)
            theirs.recv(1)
            work()
        finally:
            os._exit(0)
    theirs.close()
    _, (listener, *_), _, _ = socket.recv_fds(ours, 1, 1)
    ours.sendall(b"x")
    try:
        made = _pass_on(child, listener, before)
    finally:
        os.close(listener)
        ours.close()
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return made


def _pass_on(child: int, listener: int, before: int | None) -> list[str]:
    """Let the calls of a process pass until the one before which it is killed."""
    made: list[str] = []
    ended = os.pidfd_open(child)
    poll = select.poll()
    for descriptor in (listener, ended):
        poll.register(descriptor, select.POLLIN)
    try:
        while True:
            ready = dict(poll.poll())
            if not ready.get(listener, 0) & select.POLLIN:
                return made  # it has ended
            told = bytearray(80)
            fcntl.ioctl(listener, _RECEIVE, told, True)
            if len(made) == before:
                os.kill(child, signal.SIGKILL)
                return made
            (number,) = struct.unpack_from("i", told, 16)
            made.append(_NAMES[number])
            (told_id,) = struct.unpack_from("Q", told, 0)
            goes_on = struct.pack("QqiI", told_id, 0, 0, 1)
            with suppress(FileNotFoundError):  # its thread has ended meanwhile
                fcntl.ioctl(listener, _SEND, bytearray(goes_on), True)
    finally:
        os.close(ended)
