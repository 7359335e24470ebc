"""The command line that starts Python in namespaces of its own, with almost nothing of the host in sight."""

import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from activities.code.protocol import DOCUMENTS, GivenFile

FOLDER: Final = "/work"
"""The only place that can be written to."""
PACKAGES: Final = "/packages"
_PROGRAM: Final = Path(__file__).with_name("bubblewrap_program.py")
_PROGRAM_INSIDE: Final = "/program.py"
# Where the dynamic linker finds the C library. /etc is left out with all the rest.
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


def command(
    program: str,
    *,
    filter_descriptor: int,
    folder_bytes: int,
    packages: Path | None,
    files: Sequence[GivenFile],
    arguments: Iterable[int],
) -> list[str]:
    """Write the command line: `program` is bwrap, `arguments` are those of the program inside."""
    interpreter = Path(sys.executable).resolve()
    line = [
        program, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session",
        "--clearenv", "--cap-drop", "ALL", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox",
    ]  # fmt: skip
    for name, value in _ENVIRONMENT.items():
        line += ["--setenv", name, value]
    for path in _LIBRARIES:
        if Path(path).is_symlink():
            line += ["--symlink", os.readlink(path), path]  # noqa: PTH115 - as it is written, not as a path
        else:
            line += ["--ro-bind-try", path, path]
    for path in _of_the_interpreter(interpreter):
        line += ["--ro-bind-try", path, path]
    line += ["--ro-bind", str(_PROGRAM), _PROGRAM_INSIDE]
    if packages is not None:
        line += ["--ro-bind", str(packages), PACKAGES]
    line += ["--dev", "/dev", "--size", str(folder_bytes), "--perms", "0700", "--tmpfs", FOLDER]
    for file in files:
        line += ["--ro-bind", str(file.path), str(PurePosixPath(FOLDER, DOCUMENTS, file.name))]
    # What bwrap made for itself has no size, so nothing can be written there.
    line += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", FOLDER, "--seccomp", str(filter_descriptor)]
    # Unbuffered: what was printed until the program is stopped is shown to whoever wrote it.
    return [*line, "--", str(interpreter), "-ISBu", "-X", "utf8", _PROGRAM_INSIDE, *map(str, arguments)]


def _of_the_interpreter(interpreter: Path) -> list[str]:
    """The interpreter, its library and its standard library, unless they lie below what is there anyhow."""
    paths = sysconfig.get_paths()
    wanted = [str(interpreter), paths["stdlib"], paths["platstdlib"]]
    if folder := sysconfig.get_config_var("LIBDIR"):
        wanted += sorted(str(library) for library in Path(str(folder)).glob("libpython*"))
    outside = [path for path in wanted if not path.startswith(("/usr/lib/", "/usr/lib64/"))]
    return list(dict.fromkeys(outside))
