"""The command `chargehand`: options and their order; what the commands do is in the modules beside."""

import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from chargehand.cli import doctor as doctor_
from chargehand.cli import looking, protecting, replaying, running
from chargehand.cli.connection import Connection, decide
from chargehand.cli.exits import Exit
from chargehand.cli.interrupts import run_interruptible
from chargehand.cli.place import Wishes
from chargehand.cli.terminal import say
from chargehand.cli.typed import BadRequest, Typed
from chargehand.embedded import Departure
from chargehand.errors import ChargehandError, NotReachable, SessionFailed, SessionNotFound
from chargehand.protection.errors import ProtectionSettingsError
from chargehand.upload import UploadRefused
from chargehand.wire import ErrorType

app = typer.Typer(
    name="chargehand",
    help="Durable multi-agent sessions on Temporal.\n\n"
    "Exit codes: 0 done, report complete · 1 session failed · 2 bad input or usage · 3 report, but partial · "
    "4 server or worker unreachable · 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: the other kind takes half a second to load
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Address = Annotated[
    str | None,
    typer.Option(
        help="Temporal server, HOST:PORT. Without it TEMPORAL_ADDRESS, Temporal's profiles, or an embedded server."
    ),
]
Application = Annotated[
    Path | None,
    typer.Option(help="Checkout whose worker the embedded server runs (CHARGEHAND_APPLICATION)."),
]
State = Annotated[
    Path | None,
    typer.Option("--state-dir", help="Where sessions and files are kept (CHARGEHAND_STATE_DIR)."),
]
Artefacts = Annotated[
    Path | None,
    typer.Option(
        help="Directory for documents that the server's workers share with this machine (CHARGEHAND_ARTEFACTS)."
    ),
]
Queue = Annotated[
    str | None,
    typer.Option("--task-queue", help="Task queue of the workers (CHARGEHAND_TASK_QUEUE)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Put out JSON and nothing else on standard output.")]
SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]
Goal = Annotated[str | None, typer.Argument(metavar="GOAL", help="What you want to know or have done.")]
Documents = Annotated[
    list[Path] | None, typer.Option("--docs", "-d", help="A document or folder to work on; may be repeated.")
]
Input = Annotated[
    str | None, typer.Option(metavar="FILE", help="A request as JSON from a file, or - for standard input.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Crew = Annotated[str | None, typer.Option(help="The crew that does the work.", show_default="research")]
NewId = Annotated[
    str | None,
    typer.Option("--id", help="Id of the session. If it exists already, that one is taken instead of a new one."),
]
ApprovePlan = Annotated[bool, typer.Option("--approve-plan", help="Wait for `chargehand plan SESSION --approve`.")]
Budget = Annotated[float | None, typer.Option(help="US dollars.", show_default="2.00")]
Turns = Annotated[int | None, typer.Option(help="Model calls.", show_default="20")]
Deadline = Annotated[str | None, typer.Option(help="90s, 10m, 2h or ISO 8601.", show_default="10m")]
Parallel = Annotated[int | None, typer.Option(help="Subtasks at the same time.", show_default="5")]
Depth = Annotated[int | None, typer.Option(help="Delegations deep.", show_default="5")]
Attempts = Annotated[int | None, typer.Option(help="Tries at a subtask.", show_default="3")]
Rounds = Annotated[int | None, typer.Option(help="Rounds of an agent.", show_default="10")]
SubtaskTime = Annotated[
    str | None, typer.Option("--subtask-deadline", help="Time of one attempt at a subtask.", show_default="5m")
]
OnLimit = Annotated[
    Literal["finish", "pause"] | None,
    typer.Option(help="At a limit, write the report, or wait for `chargehand raise`.", show_default="finish"),
]
Review = Annotated[
    Literal["auto", "always", "never"] | None,
    typer.Option(help="Have a judge look at the outcomes and a critic at the report.", show_default="auto"),
]
Questions = Annotated[bool, typer.Option("--questions", help="Let an agent ask you what an unclear instruction means.")]
AnswerWithin = Annotated[
    str | None, typer.Option(help="How long a question waits before the work goes on.", show_default="5m")
]
Urgency = Annotated[
    Literal["now", "batch"] | None,
    typer.Option(help="`batch`: hours, at half the price, where the provider offers that.", show_default="now"),
]
MoreTurns = Annotated[int | None, typer.Option("--turns", help="Model calls in all, those made included.")]
MoreBudget = Annotated[float | None, typer.Option("--budget", help="US dollars in all, those spent included.")]
MoreTime = Annotated[
    str | None, typer.Option("--deadline", help="Time from the session's start: 90s, 10m, 2h or ISO 8601.")
]


@app.command()
def run(
    goal: Goal = None,
    *,
    docs: Documents = None,
    input: Input = None,  # noqa: A002  # the name of the option
    crew: Crew = None,
    id: NewId = None,  # noqa: A002  # as above
    approve_plan: ApprovePlan = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
    budget: Budget = None,
    turns: Turns = None,
    deadline: Deadline = None,
    parallel: Parallel = None,
    depth: Depth = None,
    attempts: Attempts = None,
    rounds: Rounds = None,
    subtask_deadline: SubtaskTime = None,
    on_limit: OnLimit = None,
    review: Review = None,
    questions: Questions = False,
    answer_within: AnswerWithin = None,
    urgency: Urgency = None,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    artefacts: Artefacts = None,
    task_queue: Queue = None,
) -> None:
    """Carry out a request, show how it goes, and put the report out."""
    typed = Typed(
        goal,
        input,
        crew,
        budget,
        turns,
        deadline,
        parallel,
        depth,
        attempts,
        rounds,
        approve_plan,
        subtask_deadline,
        on_limit,
        review,
        questions,
        answer_within,
        urgency,
    )
    paths = _checked(typed, docs)
    _connected(
        Wishes(address, application, state_dir, artefacts, task_queue),
        lambda connection: running.run(
            connection, typed, running.upload(connection, paths), id, running.Output(as_json, quiet)
        ),
    )


@app.command()
def start(
    goal: Goal = None,
    *,
    docs: Documents = None,
    input: Input = None,  # noqa: A002  # the name of the option
    crew: Crew = None,
    id: NewId = None,  # noqa: A002  # as above
    approve_plan: ApprovePlan = False,
    budget: Budget = None,
    turns: Turns = None,
    deadline: Deadline = None,
    parallel: Parallel = None,
    depth: Depth = None,
    attempts: Attempts = None,
    rounds: Rounds = None,
    subtask_deadline: SubtaskTime = None,
    on_limit: OnLimit = None,
    review: Review = None,
    questions: Questions = False,
    answer_within: AnswerWithin = None,
    urgency: Urgency = None,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    artefacts: Artefacts = None,
    task_queue: Queue = None,
) -> None:
    """Start a session, put out its id, and leave it to the worker."""
    typed = Typed(
        goal,
        input,
        crew,
        budget,
        turns,
        deadline,
        parallel,
        depth,
        attempts,
        rounds,
        approve_plan,
        subtask_deadline,
        on_limit,
        review,
        questions,
        answer_within,
        urgency,
    )
    paths = _checked(typed, docs)
    departure = _connected(
        Wishes(address, application, state_dir, artefacts, task_queue),
        lambda connection: running.start(connection, typed, running.upload(connection, paths), id),
    )
    if departure is not Departure.OTHERS_STAY:
        say("The embedded server has ended with this command. The session goes on whenever there is one again:")
        say("  chargehand up    or    chargehand watch SESSION")


@app.command()
def status(
    session: SessionId,
    *,
    as_json: AsJson = False,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    task_queue: Queue = None,
) -> None:
    """Say where a session stands: its plan with states, turns and dollars."""
    _connected(
        Wishes(address, application, state_dir, None, task_queue),
        lambda connection: looking.status(connection, session, as_json=as_json),
    )


@app.command()
def watch(
    session: SessionId,
    *,
    as_json: AsJson = False,
    quiet: Quiet = False,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    task_queue: Queue = None,
) -> None:
    """Show a session until it ends, and put its report out. Ctrl-C leaves the session alone."""
    _connected(
        Wishes(address, application, state_dir, None, task_queue),
        lambda connection: running.watch(connection, session, running.Output(as_json, quiet)),
    )


@app.command()
def result(
    session: SessionId,
    *,
    as_json: AsJson = False,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    task_queue: Queue = None,
) -> None:
    """Wait for a session's report and put it out."""
    _connected(
        Wishes(address, application, state_dir, None, task_queue),
        lambda connection: looking.result(connection, session, running.Output(as_json)),
    )


@app.command()
def cancel(
    session: SessionId,
    *,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    task_queue: Queue = None,
) -> None:
    """Ask a session to stop without a report."""
    _connected(
        Wishes(address, application, state_dir, None, task_queue),
        lambda connection: looking.cancel(connection, session),
    )


@app.command()
def finish(
    session: SessionId,
    *,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    task_queue: Queue = None,
) -> None:
    """Have a session stop what runs and write its report from what is there."""
    _connected(
        Wishes(address, application, state_dir, None, task_queue),
        lambda connection: looking.finish(connection, session),
    )


@app.command("raise")
def raise_(
    session: SessionId,
    *,
    turns: MoreTurns = None,
    budget: MoreBudget = None,
    deadline: MoreTime = None,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    task_queue: Queue = None,
) -> None:
    """Raise the limits of a session that runs; one that waits for them goes on."""
    if turns is None and budget is None and deadline is None:
        raise typer.BadParameter("Say what to raise, and how far: --turns, --budget or --deadline.")
    typed = Typed(turns=turns, budget=budget, deadline=deadline)
    _connected(
        Wishes(address, application, state_dir, None, task_queue),
        lambda connection: looking.raise_limits(connection, session, typed),
    )


@app.command()
def answer(
    session: SessionId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The answer, as you would tell a colleague.")],
    *,
    subtask: Annotated[
        str | None, typer.Option(help="Subtask whose question is answered.", show_default="the one that asks")
    ] = None,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    task_queue: Queue = None,
) -> None:
    """Answer the question of a session that was started with --questions."""
    _connected(
        Wishes(address, application, state_dir, None, task_queue),
        lambda connection: looking.answer(connection, session, text, subtask),
    )


@app.command()
def plan(
    session: SessionId,
    *,
    approve: Annotated[bool, typer.Option("--approve", help="Carry the plan out.")] = False,
    edit: Annotated[
        Path | None,
        typer.Option("--edit", metavar="FILE", help="Carry out this plan instead: JSON as --json shows it."),
    ] = None,
    reject: Annotated[str | None, typer.Option("--reject", metavar="REASON", help="End the session.")] = None,
    as_json: AsJson = False,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    task_queue: Queue = None,
) -> None:
    """Show a session's plan, or decide about one that waits for approval."""
    if sum((approve, edit is not None, reject is not None)) > 1:
        raise typer.BadParameter("--approve, --edit and --reject exclude each other.")
    decision = looking.Decision(approve=approve, edit=edit, reject=reject)
    _connected(
        Wishes(address, application, state_dir, None, task_queue),
        lambda connection: looking.plan(connection, session, decision, as_json=as_json),
    )


@app.command()
def trace(
    session: SessionId,
    *,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write report and trace as a page instead.")
    ] = None,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    task_queue: Queue = None,
) -> None:
    """Put every step of a session out as JSON. Works without a worker, also for sessions that failed."""
    _connected(
        Wishes(address, application, state_dir, None, task_queue),
        lambda connection: looking.trace(connection, session, html),
    )


@app.command("list")
def list_(
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1_000, help="How many, the newest first.")] = 20,
    as_json: AsJson = False,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    task_queue: Queue = None,
) -> None:
    """List sessions."""
    _connected(
        Wishes(address, application, state_dir, None, task_queue),
        lambda connection: looking.list_sessions(connection, limit, as_json=as_json),
    )


@app.command()
def replay(
    sessions: Annotated[list[str] | None, typer.Argument(metavar="SESSION", help="Ids of sessions.")] = None,
    *,
    last: Annotated[
        int | None, typer.Option(min=1, max=10_000, help="How many, the newest first.", show_default="20")
    ] = None,
    running: Annotated[
        bool, typer.Option("--running", help="Only sessions that run now; all, without --last.")
    ] = False,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Histories from --save or from Temporal's tools instead.")
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep the histories, to replay them later.")] = None,
    as_json: AsJson = False,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    task_queue: Queue = None,
) -> None:
    """Replay sessions on the workflows installed here: would they go on after an upgrade? 1 if one would not."""
    named = bool(sessions)
    if sum((named, last is not None or running, file is not None)) > 1 or (file and save):
        raise typer.BadParameter("Name sessions, or choose by --last and --running, or name a --file; --save fetches.")
    wishes = Wishes(address, application, state_dir, None, task_queue)
    if file:
        code = run_interruptible(replaying.replay_file(decide(wishes), file.absolute(), as_json=as_json))
        if code is not Exit.DONE:
            raise typer.Exit(code)
        return
    chosen = replaying.Chosen(sessions or (), last, running, save, as_json)
    _connected(wishes, lambda connection: replaying.replay_sessions(connection, chosen))


@app.command()
def doctor(
    *,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    artefacts: Artefacts = None,
    task_queue: Queue = None,
) -> None:
    """Look at everything a session needs, and say what is wrong."""
    _connected(
        Wishes(address, application, state_dir, artefacts, task_queue),
        lambda connection: doctor_.examine(connection, doctor_.Findings()),
    )


@app.command()
def up(
    *,
    application: Application = None,
    state_dir: State = None,
    task_queue: Queue = None,
) -> None:
    """Run the embedded server and a worker until Ctrl-C."""
    _connected(Wishes(None, application, state_dir, None, task_queue), running.stay_up)


@app.command("codec-server")
def codec_server(
    *,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes any.")] = 8081,
    host: Annotated[str, typer.Option(help="Address to listen on; other than loopback needs TLS.")] = "127.0.0.1",
    namespace: Annotated[
        list[str] | None, typer.Option(help="Namespace to serve; may be repeated.", show_default="TEMPORAL_NAMESPACE")
    ] = None,
    ui_origin: Annotated[
        list[str] | None, typer.Option(help="Address of a Web UI that may ask; may be repeated.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(metavar="FILE", help="Certificate chain for TLS, PEM.")] = None,
    private_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key, PEM.")] = None,
) -> None:
    """Show encrypted and stored payloads to Temporal's Web UI and command line, for those who know the token.

    The token is CHARGEHAND_CODEC_TOKEN, or made up and shown at the start.
    """
    wishes = protecting.CodecServerWishes(host, port, namespace or (), ui_origin or (), certificate, private_key)
    run_interruptible(protecting.serve_codec(wishes))


@app.command()
def clean(
    *,
    older_than: Annotated[str, typer.Option(help="Age of what is deleted: 12h, 30d or 4w.")] = "30d",
    delete: Annotated[bool, typer.Option("--delete", help="Delete; without it, only say what would be.")] = False,
    address: Address = None,
    application: Application = None,
    state_dir: State = None,
    task_queue: Queue = None,
) -> None:
    """Delete stored payloads that no session on the server needs any more."""
    age = protecting.age(older_than)
    _connected(
        Wishes(address, application, state_dir, None, task_queue),
        lambda connection: protecting.clean(connection, age, delete=delete),
    )


def main() -> NoReturn:
    """Run a command and end the process at once: the SDK's threads can abort one that ends the ordinary way."""
    code = carry_out(sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def carry_out(arguments: list[str]) -> int:
    """Run a command and return its exit code; whatever goes wrong is said on standard error."""
    try:
        app(arguments)
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else Exit.FAILED
    except ChargehandError as error:
        say(f"chargehand: {error}")
        return _exit_of(error)
    except BaseException:  # noqa: BLE001  # nothing is above us, and the process must not end the ordinary way
        traceback.print_exc()
        return Exit.FAILED
    return Exit.DONE


def _checked(typed: Typed, documents: list[Path] | None) -> tuple[Path, ...]:
    """Refuse what can be seen to be wrong before anything is started."""
    if (typed.goal is None) == (typed.input is None):
        raise typer.BadParameter("Say what you want to know: either GOAL, or --input FILE with a request as JSON.")
    paths = tuple(documents or ())
    running.require_documents(paths)
    return paths


def _connected(wishes: Wishes, work: Callable[[Connection], Coroutine[object, object, Exit]]) -> Departure:
    """Do a command's work on its connection; leaves the embedded server whatever happens."""
    connection = Connection(decide(wishes))
    departure = Departure.STILL_ENDING
    try:
        connection.begin()
        code = run_interruptible(work(connection))
    finally:
        departure = connection.end()
        if departure is Departure.STILL_ENDING:
            say("The embedded server's worker still finishes its calls, and then everything ends by itself.")
    if code is not Exit.DONE:
        raise typer.Exit(code)
    return departure


def _exit_of(error: ChargehandError) -> Exit:
    match error:
        case NotReachable():
            return Exit.UNREACHABLE
        case SessionFailed(error_type=ErrorType.INVALID_INPUT) | SessionNotFound() | UploadRefused() | BadRequest():
            return Exit.BAD_INPUT
        case ProtectionSettingsError():
            return Exit.BAD_INPUT
        case _:
            return Exit.FAILED


if __name__ == "__main__":
    main()
