"""Isolation of code from the host: bwrap's namespaces, and a filter of system calls.

bwrap loads a filter but cannot build one, and no binding of libseccomp is installed everywhere, so the classic BPF
program is written here. It is a deny list: full Python with packages makes more kinds of calls than can be
allowed individually, and the namespaces protect the host. The filter removes what namespaces permit: new processes,
further namespaces, sockets, memory outside limits, and rarely used parts of the kernel.
"""

import os
import platform
import struct
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from activities.tools.code.protocol import DOCUMENTS, GivenFile

FOLDER: Final = "/work"
"""The only writable folder."""
PACKAGES: Final = "/packages"
_PROGRAM: Final = Path(__file__).with_name("program.py")
_PROGRAM_INSIDE: Final = "/program.py"
_SCRIPT: Final = Path(__file__).with_name("program.cjs")
_SCRIPT_INSIDE: Final = "/program.cjs"
# Where the dynamic linker finds the C library. Everything else, such as /etc, is left out.
_LIBRARIES: Final = ("/lib", "/lib64", "/lib32", "/libx32", "/usr/lib", "/usr/lib64")
_ENVIRONMENT: Final = {
    "PATH": "/nowhere",
    "HOME": FOLDER,
    "TMPDIR": FOLDER,
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "MPLBACKEND": "agg",
    "MPLCONFIGDIR": f"{FOLDER}/.matplotlib",
    "MPL_IGNORE_SYSTEM_FONTS": "1",
    # Each thread of these libraries reserves address space, which is limited.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class UnknownMachineError(Exception):
    """No system call filter is known for this kind of processor."""


CLONE_THREAD: Final = 0x0001_0000
_CLONE3: Final = 435
_X32: Final = 0x4000_0000
"""From this number on, call numbers repeat the same calls with 32-bit pointers."""
# The column of a machine in the table, the kernel's AUDIT_ARCH_… constant, and the number of `clone`.
_MACHINES: Final = {"x86_64": (0, 0xC000_003E, 56), "aarch64": (1, 0xC000_00B7, 220)}
# The number on x86_64 and on aarch64.
_REFUSED: Final[dict[str, tuple[int, int | None]]] = {
    "fork": (57, None), "vfork": (58, None), "execveat": (322, 281), "unshare": (272, 97), "setns": (308, 268),
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "swapon": (167, 224),
    "swapoff": (168, 225), "socket": (41, 198), "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190),
    "msgget": (68, 186), "mq_open": (240, 180), "memfd_create": (319, 279), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18), "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "personality": (135, 92),
    "modify_ldt": (154, None), "uselib": (134, None), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "reboot": (169, 142),
    "syslog": (103, 116), "acct": (163, 89), "quotactl": (179, 60), "iopl": (172, None), "ioperm": (173, None),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "sethostname": (170, 161), "setdomainname": (171, 162),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "mount_setattr": (442, 442), "memfd_secret": (447, 447),
}  # fmt: skip

_ALLOW: Final = 0x7FFF_0000
_REFUSE: Final = 0x0005_0000 | 1  # EPERM
_NO_SUCH_CALL: Final = 0x0005_0000 | 38  # ENOSYS: the C library then uses `clone`, whose flags a filter can read
_KILL: Final = 0x8000_0000

_LOAD_WORD: Final = 0x20
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_JUMP_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06

_AT_NUMBER: Final = 0
_AT_MACHINE: Final = 4
_AT_FIRST_ARGUMENT: Final = 16
"""The lower half of the argument, since both machines are little-endian."""


def command(
    program: str,
    *,
    filter_descriptor: int,
    folder_bytes: int,
    packages: Path | None,
    files: Sequence[GivenFile],
    arguments: Iterable[int],
    node: Path | None = None,
) -> list[str]:
    """Build the command line: `program` is the path of bwrap, `arguments` are those of the program inside.

    With `node`, the program inside runs the code that it is given as JavaScript.
    """
    interpreter = Path(sys.executable).resolve()
    line = [
        program, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session",
        "--clearenv", "--cap-drop", "ALL", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox",
    ]  # fmt: skip
    for name, value in _ENVIRONMENT.items():
        line += ["--setenv", name, value]
    for path in _LIBRARIES:
        if Path(path).is_symlink():
            line += ["--symlink", os.readlink(path), path]  # noqa: PTH115 - as written, not as a path
        else:
            line += ["--ro-bind-try", path, path]
    for path in _interpreter_paths(interpreter):
        line += ["--ro-bind-try", path, path]
    line += ["--ro-bind", str(_PROGRAM), _PROGRAM_INSIDE]
    script: list[str] = []
    if node is not None:
        line += ["--ro-bind", str(node), str(node), "--ro-bind", str(_SCRIPT), _SCRIPT_INSIDE]
        script = [str(node), "--no-warnings", _SCRIPT_INSIDE]
    if packages is not None:
        line += ["--ro-bind", str(packages), PACKAGES]
    line += ["--dev", "/dev", "--size", str(folder_bytes), "--perms", "0700", "--tmpfs", FOLDER]
    for file in files:
        line += ["--ro-bind", str(file.path), str(PurePosixPath(FOLDER, DOCUMENTS, file.name))]
    # The folders that bwrap itself makes have no size limit, so they become read-only.
    line += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", FOLDER, "--seccomp", str(filter_descriptor)]
    # Unbuffered, so that output printed before the program is stopped is still returned.
    return [*line, "--", str(interpreter), "-ISBu", "-X", "utf8", _PROGRAM_INSIDE, *map(str, arguments), *script]


def _interpreter_paths(interpreter: Path) -> list[str]:
    """List the interpreter, its library and its standard library, unless they are below the libraries."""
    paths = sysconfig.get_paths()
    wanted = [str(interpreter), paths["stdlib"], paths["platstdlib"]]
    if folder := sysconfig.get_config_var("LIBDIR"):
        wanted += sorted(str(library) for library in Path(str(folder)).glob("libpython*"))
    outside = [path for path in wanted if not path.startswith(("/usr/lib/", "/usr/lib64/"))]
    return list(dict.fromkeys(outside))


def refused_calls(machine: str) -> dict[str, int]:
    """List the calls that are refused regardless of their arguments. Raises `UnknownMachineError`."""
    column, _, _ = _machine(machine)
    return {name: number for name, numbers in _REFUSED.items() if (number := numbers[column]) is not None}


def filter_program(machine: str = "") -> bytes:
    """Build the filter for this machine, or for a named one. Raises `UnknownMachineError`."""
    machine = machine or platform.machine()
    _, audit, clone = _machine(machine)
    program = [
        _instruction(_LOAD_WORD, _AT_MACHINE),
        _instruction(_JUMP_EQUAL, audit, if_true=1),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD_WORD, _AT_NUMBER),
    ]
    tests = [(_JUMP_EQUAL, number, _REFUSE) for number in sorted(refused_calls(machine).values())]
    tests += [(_JUMP_AT_LEAST, _X32, _REFUSE), (_JUMP_EQUAL, _CLONE3, _NO_SUCH_CALL)]
    for test, value, result in tests:
        program += [_instruction(test, value, if_false=1), _instruction(_RETURN, result)]
    program += [
        _instruction(_JUMP_EQUAL, clone, if_true=1),
        _instruction(_RETURN, _ALLOW),
        _instruction(_LOAD_WORD, _AT_FIRST_ARGUMENT),
        _instruction(_JUMP_ANY_BIT, CLONE_THREAD, if_false=1),
        _instruction(_RETURN, _ALLOW),
        _instruction(_RETURN, _REFUSE),
    ]
    return b"".join(program)


def _machine(name: str) -> tuple[int, int, int]:
    if name not in _MACHINES:
        raise UnknownMachineError(f"there is no filter of system calls for {name}")
    return _MACHINES[name]


def _instruction(operation: int, value: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    """Encode an instruction of classic BPF; a jump skips `if_true` or `if_false` instructions."""
    return struct.pack("<HBBI", operation, if_true, if_false, value)
