"""Crew files, written from a test's description."""

from pathlib import Path


def crew_text(name: str, /, settings: str = "", **agents: str) -> str:
    """Write a crew whose agents have these settings; other required fields get placeholder text."""
    head = f'name = "{name}"\ndescription = "The {name} of a test."\nguidance = "Give everything to its agents."\n'
    return f"{head}{settings}\n" + "".join(
        f'[[agents]]\nname = "{agent}"\ndescription = "The {agent} of the {name}."\n'
        f'prompt = "You are its {agent}."\n{own}\n'
        for agent, own in agents.items()
    )


def crew_folder(folder: Path, name: str, /, settings: str = "", **agents: str) -> Path:
    """Write such a crew into the folder `crews` below this one, and return that folder."""
    crews = folder / "crews"
    crews.mkdir(parents=True, exist_ok=True)
    (crews / f"{name}.toml").write_text(crew_text(name, settings, **agents), encoding="utf-8")
    return crews


READS_DOCUMENTS = 'capabilities = ["reads_private"]'
READS_THE_WEB = 'capabilities = ["reads_untrusted", "reaches_out"]'
