"""Decisions of the system call filter, evaluated as the kernel would."""

import struct

import pytest

from chargehand_plugins.bubblewrap.isolation import CLONE_THREAD, UnknownMachineError, filter_program, refused_calls

ALLOWED, REFUSED, NOT_THERE, KILLED = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE = {"x86_64": 56, "aarch64": 220}
# Read, write, close, mmap, exit_group, futex, execve, openat, getrandom: nothing runs without them.
NEEDED = {"x86_64": (0, 1, 3, 9, 231, 202, 59, 257, 318, 53), "aarch64": (63, 64, 57, 222, 94, 98, 221, 56, 278, 199)}


def decide(program: bytes, machine: int, number: int, first_argument: int = 0) -> int:
    """Run the filter on one call as classic BPF specifies."""
    data = struct.pack("<IIQ6Q", number, machine, 0, first_argument, 0, 0, 0, 0, 0)
    accumulator, at = 0, 0
    while True:
        operation, if_true, if_false, value = struct.unpack_from("<HBBI", program, at * 8)
        at += 1
        match operation:
            case 0x20:  # load a word
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x15:  # jump if equal
                at += if_true if accumulator == value else if_false
            case 0x35:  # jump if greater or equal
                at += if_true if accumulator >= value else if_false
            case 0x45:  # jump if a bit is set
                at += if_true if accumulator & value else if_false
            case _:
                assert operation == 0x06  # return
                return int(value)


@pytest.mark.parametrize("machine", AUDIT)
def test_every_listed_system_call_is_refused(machine: str) -> None:
    """The list covers namespace escapes and unmetered memory and sockets; arguments do not matter."""
    program = filter_program(machine)
    refused = refused_calls(machine)

    assert {name: decide(program, AUDIT[machine], number) for name, number in refused.items()} == dict.fromkeys(
        refused, REFUSED
    )
    assert {
        "unshare", "setns", "mount", "pivot_root", "ptrace", "bpf", "keyctl", "io_uring_setup", "socket",
        "memfd_create", "shmget", "userfaultfd", "perf_event_open", "open_by_handle_at",
        "process_vm_writev", "kexec_load",
    } <= set(refused)  # fmt: skip


@pytest.mark.parametrize("machine", AUDIT)
def test_needed_calls_are_allowed_and_aliases_do_not_bypass_the_filter(machine: str) -> None:
    """Threads are allowed; fork and new namespaces are refused, clone3 does not exist, and 32-bit calls kill."""
    program, own, clone = filter_program(machine), AUDIT[machine], CLONE[machine]

    assert {decide(program, own, number) for number in NEEDED[machine]} == {ALLOWED}
    assert [decide(program, own, clone, flags) for flags in (CLONE_THREAD | 0x100, 17, 0x10000000)] == [
        ALLOWED,
        REFUSED,  # SIGCHLD, which fork passes
        REFUSED,  # CLONE_NEWUSER
    ]
    assert decide(program, own, 435) == NOT_THERE
    assert decide(program, 0x40000003, 1) == KILLED
    assert {decide(program, own, 0x40000000 + number) for number in (0, 41, 56, 57)} == {REFUSED}


def test_an_unsupported_architecture_is_an_error() -> None:
    """Without a seccomp filter there is no sandbox, so riscv64 is refused by name."""
    with pytest.raises(UnknownMachineError, match="no filter of system calls for riscv64"):
        filter_program("riscv64")
