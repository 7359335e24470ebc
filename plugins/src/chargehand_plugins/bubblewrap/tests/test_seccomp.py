"""What the filter of system calls decides, worked out as the kernel would."""

import struct

import pytest

from chargehand_plugins.bubblewrap.isolation import CLONE_THREAD, UnknownMachineError, filter_program, refused_calls

ALLOWED, REFUSED, NOT_THERE, KILLED = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE = {"x86_64": 56, "aarch64": 220}
# Read, write, close, mmap, exit_group, futex, execve, openat, getrandom: nothing runs without them.
NEEDED = {"x86_64": (0, 1, 3, 9, 231, 202, 59, 257, 318, 53), "aarch64": (63, 64, 57, 222, 94, 98, 221, 56, 278, 199)}
MACHINES = tuple(AUDIT)


def decide(program: bytes, machine: int, number: int, first_argument: int = 0) -> int:
    """Run the filter on one call, by the rules of classic BPF."""
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
            case 0x35:  # jump if not less
                at += if_true if accumulator >= value else if_false
            case 0x45:  # jump if a bit is set
                at += if_true if accumulator & value else if_false
            case _:
                assert operation == 0x06  # return
                return int(value)


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_of_the_list_is_refused(machine: str) -> None:
    """Whatever its arguments; the list has what gets out of namespaces, and memory and sockets that nobody counts."""
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


@pytest.mark.parametrize("machine", MACHINES)
def test_threads_are_allowed_and_processes_are_not(machine: str) -> None:
    """Both are made by the same call; the other one, whose flags no filter can read, is said not to exist."""
    program = filter_program(machine)

    decided = [
        decide(program, AUDIT[machine], CLONE[machine], CLONE_THREAD | 0x100),
        decide(program, AUDIT[machine], CLONE[machine], 17),  # SIGCHLD: what fork asks for
        decide(program, AUDIT[machine], CLONE[machine], 0x10000000),  # CLONE_NEWUSER
        decide(program, AUDIT[machine], 435),
    ]

    assert decided == [ALLOWED, REFUSED, REFUSED, NOT_THERE]


@pytest.mark.parametrize("machine", MACHINES)
def test_ordinary_calls_are_allowed(machine: str) -> None:
    """What every program needs is not in the way; 32-bit calls, whose numbers mean something else, are deadly."""
    program = filter_program(machine)

    assert {decide(program, AUDIT[machine], number) for number in NEEDED[machine]} == {ALLOWED}
    assert decide(program, 0x40000003, 1) == KILLED


def test_calls_with_short_pointers_are_refused() -> None:
    """On x86_64 every call is there a second time, under a higher number."""
    program = filter_program("x86_64")

    assert {decide(program, AUDIT["x86_64"], 0x40000000 + number) for number in (0, 41, 56, 57)} == {REFUSED}


def test_another_machine_has_no_filter() -> None:
    """Without a filter there is no sandbox, so it is said."""
    with pytest.raises(UnknownMachineError, match="no filter of system calls for riscv64"):
        filter_program("riscv64")
