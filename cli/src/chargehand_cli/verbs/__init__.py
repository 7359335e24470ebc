"""The verbs, a file a family; each family is a row of this registry, in the order of `chargehand --help`."""

from chargehand_cli.verbs import crew, decide, doctor, inspect, operate, project, run

FAMILIES = (run.app, inspect.app, decide.app, operate.app, project.app, crew.app, doctor.app)
