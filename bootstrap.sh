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

make_environment() {
    python=$(choose_python)
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        echo "$python cannot create virtual environments: its venv module is missing." >&2
        echo "On Debian and Ubuntu: sudo apt install python3-venv" >&2
        return 1
    fi
    "$python" -m venv --clear "$venv"
}

# An environment that was copied or moved still contains the path where it was created.
is_ours_and_whole() {
    grep -qF "$here/$venv" "$venv/bin/activate" 2>/dev/null && is_new_enough "$venv/bin/python"
}

quietly() {
    if ! "$@" >"$log" 2>&1; then
        cat "$log" >&2
        echo "Could not install the dependencies (see above). Is the package index reachable?" >&2
        return 1
    fi
}

# Settings of another project's environment must not redirect uv.
unset VIRTUAL_ENV CONDA_PREFIX UV_PROJECT_ENVIRONMENT UV_PYTHON UV_PROJECT UV_WORKING_DIRECTORY PYTHONHOME PYTHONPATH
export UV_PROJECT_ENVIRONMENT="$venv"

if is_ours_and_whole && [ -n "${2:-}" ]; then
    echo "Installing the ${1#--} $2 …" >&2
elif is_ours_and_whole; then
    echo "Updating the dependencies …" >&2
else
    echo "Installing the dependencies into $venv (first run) …" >&2
    make_environment
fi
if ! "$venv/bin/uv" --version >/dev/null 2>&1; then
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || quietly "$venv/bin/python" -m ensurepip --default-pip
    awk -f deploy/pinned-uv.awk uv.lock >"$venv/uv.txt"
    PIP_USER=0 quietly "$venv/bin/python" -m pip install --disable-pip-version-check --require-hashes -r "$venv/uv.txt"
fi
quietly "$venv/bin/uv" sync --locked --inexact --no-progress --python "$venv/bin/python" --no-python-downloads "$@"
if [ "${2:-}" != dev ] && [ ! -e "$venv/.group-dev" ]; then
    # They are 60 MB, and nothing that runs needs them; ensurepip brings pip back.
    PIP_USER=0 quietly "$venv/bin/python" -m pip uninstall --yes uv setuptools pip
fi
# Groups and extras that are older than this file are installed again by make.
if [ -z "${2:-}" ] || [ ! -e "$venv/.synced" ]; then
    echo "$here" >"$venv/.synced"
fi
