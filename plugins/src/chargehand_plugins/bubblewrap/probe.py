"""Tries to escape from the sandbox. The self-test runs this inside, like the program of an agent.

Prints one line of JSON: the names of the escapes that worked. The self-test prepends `CANARIES`: the paths, on the
host, of a file with a secret and of a folder that is writable for everyone.
"""

import ctypes
import json
import os
import platform
import resource
import socket
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

CANARIES: list[str] = list(globals().get("CANARIES", ()))
_NEW_USER = 0x1000_0000
_NEW_NAMESPACES = 0x0002_0000 | 0x2000_0000 | 0x4000_0000
# Numbers on x86_64 and on aarch64, deliberately not taken from the filter: this reveals a wrong one there.
_CALLS = {
    "fork": (57, None), "clone": (56, 220), "clone3": (435, 435), "unshare": (272, 97), "ptrace": (101, 117),
    "bpf": (321, 280), "keyctl": (250, 219), "io_uring_setup": (425, 425), "memfd_create": (319, 279),
    "shmget": (29, 194),
}  # fmt: skip
_KNOWN_ENVIRONMENT = {
    "PATH", "HOME", "TMPDIR", "LANG", "TZ", "PWD", "MPLBACKEND", "MPLCONFIGDIR", "MPL_IGNORE_SYSTEM_FONTS",
    "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
}  # fmt: skip

_library = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: int) -> int:
    number = _CALLS[name][0 if platform.machine() == "x86_64" else 1]
    return -1 if number is None else int(_library.syscall(number, *arguments))


def _forks(fork: Callable[[], int]) -> bool:
    child = fork()
    if child == 0:
        os._exit(0)
    return child > 0


def _reaches_the_kernel(name: str, *arguments: int) -> bool:
    _call(name, *arguments)
    return ctypes.get_errno() not in {1, 38}  # EPERM or ENOSYS: refused before anything was looked at


def _opens(family: int, kind: int) -> bool:
    socket.socket(family, kind).close()
    return True


def _reads(path: str) -> bool:
    if not os.path.lexists(path):
        return False
    return bool(os.listdir(path) if Path(path).is_dir() else Path(path).read_bytes())  # noqa: PTH208 - starts faster


def _raises(limit: int) -> bool:
    if resource.getrlimit(limit)[1] != resource.RLIM_INFINITY:
        resource.setrlimit(limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return True


def _has_threads() -> bool:
    seen: list[int] = []
    try:
        thread = threading.Thread(target=seen.append, args=(1,))
        thread.start()
        thread.join()
    except RuntimeError:
        return False
    return seen == [1]


# An attempt succeeds if it returns a true value; a false one, or a system error, is a refusal.
_ATTEMPTS: dict[str, list[Callable[[], object]]] = {
    "start processes": [
        partial(_forks, os.fork),
        partial(_forks, partial(_call, "clone", 17, 0, 0, 0, 0)),
        partial(_forks, partial(_call, "fork")),
        partial(_forks, partial(_call, "clone3", 0, 0)),
        lambda: os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {}),
    ],
    "make namespaces": [lambda flags=flags: _call("unshare", flags) == 0 for flags in (_NEW_USER, _NEW_NAMESPACES)],
    "mount": [lambda: _library.mount(b"none", b"/work", b"tmpfs", 0, None) == 0],
    "reach rarely used parts of the kernel": [
        partial(_reaches_the_kernel, "ptrace", 16, 0, 0, 0),
        partial(_reaches_the_kernel, "bpf", 0, 0, 0),
        partial(_reaches_the_kernel, "keyctl", 0, -3, 0),
        partial(_reaches_the_kernel, "io_uring_setup", 1, 0),
    ],
    "take memory that no limit counts": [
        lambda: _call("shmget", 0, 1 << 20, 0o1600) >= 0,
        lambda: _call("memfd_create", 0, 0) >= 0,
    ],
    "open sockets": [
        *(partial(_opens, family, socket.SOCK_STREAM) for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)),
        partial(_opens, socket.AF_INET, socket.SOCK_DGRAM),
        *(partial(_opens, family, socket.SOCK_RAW) for family in (16, 17)),  # netlink and packets
    ],
    # Anything at these paths would belong to the host, or show its processes.
    "read the host's files": [
        partial(_reads, path)
        for path in (
            *CANARIES, "/etc/passwd", "/etc/shadow", "/root/.ssh", "/home", "/proc/1/environ", "/proc/self/root", "/sys"
        )
    ],
    "see the worker's environment": [lambda: set(os.environ) - _KNOWN_ENVIRONMENT],
    "write outside its folder": [
        partial((Path(folder) / "escaped").write_text, "escaped")
        for folder in (*CANARIES, "/", "/dev", "/dev/shm", "/usr", "/usr/lib", "/tmp", "/var/tmp", "/etc")  # noqa: S108 - only looked at
    ],
    "raise its limits": [
        partial(_raises, limit)
        for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE)
    ],
    "become root": [lambda: os.getuid() == 0, lambda: os.geteuid() == 0, lambda: _library.setuid(0) == 0],
    # Not an escape, but a filter that is too strict to be useful.
    "not even use threads": [lambda: not _has_threads()],
}  # fmt: skip


def _works(attempt: Callable[[], object]) -> bool:
    try:
        return bool(attempt())
    except (OSError, ValueError):
        return False


print(json.dumps([name for name, attempts in _ATTEMPTS.items() if any(map(_works, attempts))]))
