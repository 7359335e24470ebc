"""The verbs: one file per group, and a row per file in this registry, in the `chargehand --help` order."""

from chargehand_cli.verbs import chat, inspect, report, run, sessions, steer, up, watch

GROUPS = {
    "Run": (run.app, chat.app),
    "Follow and steer": (watch.app, steer.app),
    "Read": (inspect.app, sessions.app, report.app),
    "Operate": (up.app,),
}
"""The files' verbs by the heading that lists them."""
