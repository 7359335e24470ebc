"""Try to escape from the sandbox. The self-test runs this inside, like the program of an agent.

Prints one line of JSON: the names of the escapes that worked. The self-test prepends `CANARIES`: the paths on the host
of a file with a secret and of a folder that anyone may write to.
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
from pathlib import Path

_NEW_USER = 0x1000_0000
_NEW_NAMESPACES = 0x0002_0000 | 0x2000_0000 | 0x4000_0000
# Numbers on x86_64 and on aarch64.
_CALLS = {
    "fork": (57, None),
    "vfork": (58, None),
    "clone": (56, 220),
    "clone3": (435, 435),
    "unshare": (272, 97),
    "mount": (165, 40),
    "ptrace": (101, 117),
    "bpf": (321, 280),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "memfd_create": (319, 279),
    "shmget": (29, 194),
}

_library = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: int) -> int:
    number = _CALLS[name][0 if platform.machine() == "x86_64" else 1]
    return -1 if number is None else int(_library.syscall(number, *arguments))


def _starts_processes() -> bool:
    try:
        child = os.fork()
    except OSError:
        pass
    else:
        if child == 0:
            os._exit(0)
        return True
    for name, arguments in (("clone", (17, 0, 0, 0, 0)), ("fork", ()), ("clone3", (0, 0))):
        child = _call(name, *arguments)
        if child == 0:
            os._exit(0)
        if child > 0:
            return True
    return _spawns()


def _spawns() -> bool:
    try:
        return os.posix_spawn(sys.executable, [sys.executable, "-c", ""], {}) > 0
    except OSError:
        return False


def _makes_namespaces() -> bool:
    return _call("unshare", _NEW_USER) == 0 or _call("unshare", _NEW_NAMESPACES) == 0


def _mounts() -> bool:
    return int(_library.mount(b"none", b"/work", b"tmpfs", 0, None)) == 0


def _calls_the_kernel() -> bool:
    fixed = {"ptrace": (16, 0, 0, 0), "bpf": (0, 0, 0), "keyctl": (0, -3, 0), "io_uring_setup": (1, 0)}
    for name, arguments in fixed.items():
        _call(name, *arguments)
        if ctypes.get_errno() not in {1, 38}:  # EPERM or ENOSYS: refused before anything was looked at
            return True
    return False


def _takes_uncounted_memory() -> bool:
    return _call("shmget", 0, 1 << 20, 0o1600) >= 0 or _call("memfd_create", 0, 0) >= 0


def _opens_sockets() -> bool:
    netlink, packet = getattr(socket, "AF_NETLINK", 16), getattr(socket, "AF_PACKET", 17)
    streams = [(family, socket.SOCK_STREAM) for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX)]
    others = [(socket.AF_INET, socket.SOCK_DGRAM), (netlink, socket.SOCK_RAW), (packet, socket.SOCK_RAW)]
    for family, kind in streams + others:
        try:
            socket.socket(family, kind).close()
        except OSError:
            continue
        return True
    return False


def _reads_the_host() -> bool:
    # Anything at these paths would belong to the host, or show its processes.
    paths = [
        *CANARIES,
        "/etc/passwd",
        "/etc/shadow",
        "/root/.ssh",
        "/home",
        "/proc/1/environ",
        "/proc/self/root",
        "/sys",
    ]
    return any(os.path.lexists(path) and _is_readable(path) for path in paths)


def _is_readable(path: str) -> bool:
    try:
        if Path(path).is_dir():
            return bool(os.listdir(path))  # noqa: PTH208
        return bool(Path(path).read_bytes())
    except OSError:
        return False


def _sees_the_environment() -> bool:
    known = {
        "PATH", "HOME", "TMPDIR", "LANG", "TZ", "PWD", "MPLBACKEND", "MPLCONFIGDIR", "MPL_IGNORE_SYSTEM_FONTS",
        "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    }  # fmt: skip
    return bool(set(os.environ) - known)


def _writes_outside() -> bool:
    for folder in (*CANARIES, "/", "/dev", "/dev/shm", "/usr", "/usr/lib", "/tmp", "/var/tmp", "/etc"):  # noqa: S108
        try:
            (Path(folder) / "escaped").write_text("escaped")
        except OSError:
            continue
        return True
    return False


def _raises_limits() -> bool:
    for limit in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
        if resource.getrlimit(limit)[1] == resource.RLIM_INFINITY:
            return True
        try:
            resource.setrlimit(limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        except (OSError, ValueError):
            continue
        return True
    return False


def _has_powers() -> bool:
    return os.getuid() == 0 or os.geteuid() == 0 or int(_library.setuid(0)) == 0


def _has_no_threads() -> bool:
    """Not an escape, but a filter that is too strict to be useful."""
    seen: list[int] = []
    try:
        thread = threading.Thread(target=seen.append, args=(1,))
        thread.start()
        thread.join()
    except RuntimeError:
        return True
    return seen != [1]


_TESTS: dict[str, Callable[[], bool]] = {
    "start processes": _starts_processes,
    "make namespaces": _makes_namespaces,
    "mount": _mounts,
    "reach rarely used parts of the kernel": _calls_the_kernel,
    "take memory that no limit counts": _takes_uncounted_memory,
    "open sockets": _opens_sockets,
    "read the host's files": _reads_the_host,
    "see the worker's environment": _sees_the_environment,
    "write outside its folder": _writes_outside,
    "raise its limits": _raises_limits,
    "become root": _has_powers,
    "not even use threads": _has_no_threads,
}

CANARIES: list[str] = list(globals().get("CANARIES", ()))
print(json.dumps([name for name, escapes in _TESTS.items() if escapes()]))
