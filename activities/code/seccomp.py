"""The system calls that local code may not make, as a filter that the Linux kernel runs (classic BPF).

A list of what is refused, not of what is allowed: full Python with packages makes more kinds of calls than can be
listed, and what protects the host are the namespaces. The filter takes away what namespaces leave: new processes, other
namespaces, sockets, memory that no limit counts, and those parts of the kernel where the holes are found.
"""

import platform
import struct
from typing import Final, NamedTuple


class UnknownMachineError(Exception):
    """No filter can be made for this kind of processor."""


class _Machine(NamedTuple):
    audit: int
    """The kernel's number for it (AUDIT_ARCH_…)."""
    clone: int
    refused: dict[str, int]


CLONE_THREAD: Final = 0x0001_0000
_CLONE3: Final = 435
_X32: Final = 0x4000_0000
"""Numbers from here on are the same calls once more, for 32-bit pointers."""

# Newer calls have the same number everywhere.
_EVERYWHERE: Final = {
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428, "move_mount": 429,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_getfd": 438, "process_madvise": 440,
    "mount_setattr": 442, "memfd_secret": 447,
}  # fmt: skip
_MACHINES: Final = {
    "x86_64": _Machine(
        audit=0xC000_003E,
        clone=56,
        refused=_EVERYWHERE | {
            "fork": 57, "vfork": 58, "execveat": 322, "unshare": 272, "setns": 308,
            "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "swapon": 167, "swapoff": 168,
            "socket": 41, "shmget": 29, "shmat": 30, "semget": 64, "msgget": 68, "mq_open": 240, "memfd_create": 319,
            "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312,
            "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "fanotify_init": 300, "lookup_dcookie": 212,
            "add_key": 248, "request_key": 249, "keyctl": 250,
            "name_to_handle_at": 303, "open_by_handle_at": 304, "personality": 135, "modify_ldt": 154, "uselib": 134,
            "init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246, "kexec_file_load": 320,
            "reboot": 169, "syslog": 103, "acct": 163, "quotactl": 179, "iopl": 172, "ioperm": 173,
            "settimeofday": 164, "clock_settime": 227, "sethostname": 170, "setdomainname": 171,
        },
    ),
    "aarch64": _Machine(
        audit=0xC000_00B7,
        clone=220,
        refused=_EVERYWHERE | {
            "execveat": 281, "unshare": 97, "setns": 268,
            "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "swapon": 224, "swapoff": 225,
            "socket": 198, "shmget": 194, "shmat": 196, "semget": 190, "msgget": 186, "mq_open": 180,
            "memfd_create": 279,
            "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272,
            "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "fanotify_init": 262, "lookup_dcookie": 18,
            "add_key": 217, "request_key": 218, "keyctl": 219,
            "name_to_handle_at": 264, "open_by_handle_at": 265, "personality": 92,
            "init_module": 105, "finit_module": 273, "delete_module": 106, "kexec_load": 104, "kexec_file_load": 294,
            "reboot": 142, "syslog": 116, "acct": 89, "quotactl": 60,
            "settimeofday": 170, "clock_settime": 112, "sethostname": 161, "setdomainname": 162,
        },
    ),
}  # fmt: skip

_ALLOW: Final = 0x7FFF_0000
_REFUSE: Final = 0x0005_0000 | 1  # EPERM
_NOT_THERE: Final = 0x0005_0000 | 38  # ENOSYS: the C library then makes threads by `clone`, whose flags can be read
_KILL: Final = 0x8000_0000

_LOAD_WORD: Final = 0x20
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_JUMP_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06

_AT_NUMBER: Final = 0
_AT_MACHINE: Final = 4
_AT_FIRST_ARGUMENT: Final = 16
"""Its lower half: both machines are little-endian."""


def refused_calls(machine: str) -> dict[str, int]:
    """Name the calls that are refused whatever their arguments. Raises `UnknownMachineError`."""
    return dict(_machine(machine).refused)


def filter_program(machine: str = "") -> bytes:
    """Build the filter for this machine, or for a named one. Raises `UnknownMachineError`."""
    known = _machine(machine or platform.machine())
    numbers = sorted(set(known.refused.values()))
    # What follows the list, counted from its end: allow, clone's flags (2), refuse, not there, kill.
    tail = [
        _instruction(_RETURN, _ALLOW),
        _instruction(_LOAD_WORD, _AT_FIRST_ARGUMENT),
        _instruction(_JUMP_ANY_BIT, CLONE_THREAD, 3, 0),
        _instruction(_RETURN, _REFUSE),
        _instruction(_RETURN, _NOT_THERE),
        _instruction(_RETURN, _KILL),
        _instruction(_RETURN, _ALLOW),
    ]
    tests = [(_JUMP_EQUAL, known.clone, 1), (_JUMP_EQUAL, _CLONE3, 4)]
    tests += [(_JUMP_EQUAL, number, 3) for number in numbers]
    tests.append((_JUMP_AT_LEAST, _X32, 3))
    head = [_instruction(_LOAD_WORD, _AT_MACHINE), b"", _instruction(_LOAD_WORD, _AT_NUMBER)]
    end = len(head) + len(tests)
    head[1] = _instruction(_JUMP_EQUAL, known.audit, 0, end + 5 - 2)
    body = [
        _instruction(operation, value, end + target - position - 1)
        for position, (operation, value, target) in enumerate(tests, len(head))
    ]
    return b"".join(head + body + tail)


def _machine(name: str) -> _Machine:
    try:
        return _MACHINES[name]
    except KeyError:
        raise UnknownMachineError(f"there is no filter of system calls for {name}") from None


def _instruction(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", operation, if_true, if_false, value)
