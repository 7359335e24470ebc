"""The verbs, a file a family; each family is a row of this registry, in the order of `chargehand --help`."""

from chargehand_cli.verbs import calls, crew, decide, doctor, inspect, operate, project, run

FAMILIES = (run.app, inspect.app, decide.app, calls.app, operate.app, project.app, crew.app, doctor.app)
