"""The verbs: a file for those that belong together, and a row of this registry in the order of `chargehand --help`."""

from chargehand_cli.verbs import (
    browse,
    calls,
    crew,
    decide,
    inspect,
    project,
    report,
    run,
    sessions,
    steer,
    trace,
    up,
    watch,
)

GROUPS = {
    "Run": (run.app,),
    "Follow and steer": (watch.app, steer.app, decide.app, calls.app),
    "Read": (inspect.app, sessions.app, browse.app, report.app, trace.app),
    "Operate": (up.app,),
    "Build": (project.app, crew.app),
}
"""The files' verbs by the heading that lists them."""
