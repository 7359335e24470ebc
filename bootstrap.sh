#!/bin/sh
# Create a virtual environment from Python 3.11+ with venv: pip installs uv, and uv the rest, by the hashes of uv.lock.
# Called by make, from the root of the project, when the environment ENVIRONMENT (.venv) is missing or older than the
# lock: installs what runs. With `--group NAME` or `--extra NAME` it adds that. Nothing that is installed is removed.
set -eu

here=$(pwd -P)
venv=${ENVIRONMENT:-.venv}
log=$venv/bootstrap.log

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

choose_python() {
    for candidate in "${PYTHON:-python3}" python3.13 python3.12 python3.11 python3.14; do
        if is_new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    echo "Chargehand needs Python 3.11 or newer; ${PYTHON:-python3} is $("${PYTHON:-python3}" -V 2>&1 || true)." >&2
    echo "Install one and name it: make PYTHON=/path/to/python3.13 …" >&2
    return 1
}

check_python() {
    if ! "$1" -c 'import ensurepip, venv' 2>/dev/null; then
        echo "$1 cannot create virtual environments: its venv module is missing." >&2
        echo "On Debian and Ubuntu: sudo apt install python3-venv" >&2
        return 1
    fi
}

# An environment that was copied or moved still contains the path where it was created.
is_ours_and_whole() {
    grep -qF "$here/$venv" "$venv/bin/activate" 2>/dev/null && is_new_enough "$venv/bin/python"
}

cause_in_log() {
    if grep -qi 'no space left' "$log"; then
        echo "The disk is full."
    elif grep -qi 'do not match the hashes\|hash mismatch' "$log"; then
        echo "A downloaded file is not the one that uv.lock names."
    elif grep -qi 'dns error\|name resolution\|failed to resolve\|connect\|timed out\|unreachable\|certificate' "$log"; then
        echo "The package index cannot be reached, and the caches of uv and pip do not hold everything."
    else
        echo "The cause is above."
    fi
}

quietly() {
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        echo "Could not install the dependencies. $(cause_in_log)" >&2
        return 1
    fi
}

pip() {
    PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip "$@"
}

sync() {
    "$venv/bin/uv" sync --locked --inexact --no-progress --python "$venv/bin/python" --no-python-downloads "$@"
}

# With what was downloaded before, it works without a network.
install_uv() {
    pip --version >/dev/null 2>&1 || quietly "$venv/bin/python" -m ensurepip --default-pip
    awk -f deploy/pinned-uv.awk uv.lock >"$venv/uv.txt"
    wheels=${XDG_CACHE_HOME:-${HOME:-$here}/.cache}/chargehand/uv
    if ! pip install --no-index --find-links "$wheels" --require-hashes -r "$venv/uv.txt" >"$log" 2>&1; then
        quietly pip download --no-deps --require-hashes -d "$wheels" -r "$venv/uv.txt"
        quietly pip install --no-index --find-links "$wheels" --require-hashes -r "$venv/uv.txt"
    fi
}

# Settings of another project's environment must not redirect uv.
unset VIRTUAL_ENV CONDA_PREFIX UV_PROJECT_ENVIRONMENT UV_PYTHON UV_PROJECT UV_WORKING_DIRECTORY PYTHONHOME PYTHONPATH
export UV_PROJECT_ENVIRONMENT="$venv"

# One call at a time works on an environment; the lock ends with the process that holds it.
if [ "${CHARGEHAND_BOOTSTRAP:-}" != "$here/$venv" ]; then
    python=$(choose_python)
    is_ours_and_whole || check_python "$python"
    export CHARGEHAND_BOOTSTRAP="$here/$venv"
    exec "$python" -c '
import fcntl, os, sys
lock = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR, 0o644)
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("Waiting for another installation into this environment …", file=sys.stderr, flush=True)
    fcntl.flock(lock, fcntl.LOCK_EX)
os.set_inheritable(lock, True)
os.execvp("sh", ["sh", *sys.argv[2:]])' "$venv.lock" "$0" "$@"
fi

if is_ours_and_whole && [ -n "${2:-}" ]; then
    echo "Installing the ${1#--} $2 …" >&2
elif is_ours_and_whole; then
    echo "Updating the dependencies …" >&2
else
    echo "Installing the dependencies into $venv (first run) …" >&2
    "$(choose_python)" -m venv --clear "$venv"
fi
"$venv/bin/uv" --version >/dev/null 2>&1 || install_uv
sync --offline "$@" >"$log" 2>&1 || quietly sync "$@"
if [ "${2:-}" != dev ] && [ ! -e "$venv/.group-dev" ]; then
    # They are 60 MB, and nothing that runs needs them; ensurepip brings pip back.
    quietly pip uninstall --yes uv setuptools pip
fi
# Groups and extras that are older than this file are installed again by make.
if [ -z "${2:-}" ] || [ ! -e "$venv/.synced" ]; then
    echo "$here" >"$venv/.synced"
fi
