"""Documents of a review: Markdown, SARIF 2.1.0, and dismissals read from SARIF. Pure."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, cast
from urllib.parse import quote

from pydantic import JsonValue

from chargehand_plugins.code_review.contracts import FoundIssue, SecondLook
from chargehand_plugins.code_review.diff import ChangedFile
from chargehand_plugins.code_review.findings import NOT_CONFIRMED, Reported, Sifted
from workflows.rules.inputs import by_name

_FINGERPRINT: Final = "chargehand/v1"
_UNSURE: Final = {"whole": NOT_CONFIRMED, "part": "not confirmed, or not checked", "none": "not checked"}
_LEVELS: Final = {"critical": "error", "major": "warning", "minor": "note"}


def markdown_of(sifted: Sifted, files: Sequence[ChangedFile], second_look: SecondLook = "whole") -> str:
    added = sum(len(file.added) for file in files)
    scope = f"{len(files)} changed file{'s' if len(files) != 1 else ''}, {added} added line{'s' if added != 1 else ''}"
    left_out = dict(sorted(sifted.dropped.items()))
    if sifted.dismissed:
        left_out["dismissed before"] = Counter(one.agent for each in sifted.dismissed for one in each.findings)
    parts = [f"Reviewed: {scope}."]
    if second_look == "none":
        parts.append("The second look did not take place, so that no finding is reported; see the gaps.")
    elif not sifted.reported:
        parts.append("Nothing found.")
    for number, problem in enumerate(sifted.reported, start=1):
        issue = problem.issue
        title = f"{number}. {issue.severity}: `{issue.file}:{issue.line}`"
        by = f"{', '.join(problem.reviewers)}, confidence {issue.confidence}"
        parts.append(f"### {title}\n\n{issue.message} ({by})")
        parts += [f"{one.agent}, line {one.issue.line}: {one.issue.message}" for one in problem.more]
        if issue.suggestion:
            parts.append(f"Suggestion: {issue.suggestion}")
    if count := sum(len(one.findings) for one in sifted.reported):
        total = count + sum(each.total() for each in left_out.values())
        parts.append(f"Reported: {count} of {total} findings, as {len(sifted.reported)} problems.")
    if left_out:
        names = {reason: _UNSURE[second_look] if reason == NOT_CONFIRMED else reason for reason in left_out}
        reasons = [f"{each.total()} {names[reason]} ({by_name(each)})" for reason, each in left_out.items()]
        parts.append(f"Not reported: {', '.join(reasons)}.")
    return "\n\n".join(parts)


def gaps_in(sifted: Sifted, found: Sequence[FoundIssue], second_look: SecondLook) -> list[str]:
    """List findings that were not checked or that only the second look has."""
    gaps: list[str] = []
    open_ones = Counter(one.agent for one in found) if second_look == "none" else sifted.dropped.get(NOT_CONFIRMED)
    if open_ones and second_look != "whole":
        ended = "did not take place" if second_look == "none" else "is incomplete"
        gaps.append(f"The second look {ended}; findings not checked: {open_ones.total()} ({by_name(open_ones)}).")
    if sifted.unknown:
        places = by_name(Counter(issue.file or issue.location or issue.message[:80] for issue in sifted.unknown))
        gaps.append(f"Entries of the second look that name no finding, not reported: {len(sifted.unknown)} ({places}).")
    return gaps


def sarif_of(sifted: Sifted) -> str:
    """Write the review as SARIF 2.1.0, with previously dismissed findings as suppressed."""
    all_found = [*((one, False) for one in sifted.reported), *((one, True) for one in sifted.dismissed)]
    rules = list(dict.fromkeys(one.reviewers[0] for one, _ in all_found))
    log = {
        "$schema": "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "chargehand code-review",
                        "rules": [
                            {"id": rule, "shortDescription": {"text": f"Findings of the reviewer {rule}"}}
                            for rule in rules
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(one, rules, is_dismissed=is_dismissed) for one, is_dismissed in all_found],
            }
        ],
    }
    return json.dumps(log, indent=1)


def dismissed_in(text: str) -> Iterator[str]:
    """Read the fingerprints of findings suppressed in a SARIF document; none from other documents."""
    try:
        log: object = json.loads(text)
    except (ValueError, RecursionError):
        return
    for run in _items(log, "runs"):
        for result in _items(run, "results"):
            accepted = [each for each in _items(result, "suppressions") if _field(each, "status") in {None, "accepted"}]
            print_ = _field(_field(result, "partialFingerprints"), _FINGERPRINT)
            if accepted and isinstance(print_, str):
                yield print_


def _result(found: Reported, rules: list[str], *, is_dismissed: bool) -> dict[str, JsonValue]:
    issue = found.issue
    suggestion = f"\n\nSuggestion: {issue.suggestion}" if issue.suggestion else ""
    result: dict[str, JsonValue] = {
        "ruleId": found.reviewers[0],
        "ruleIndex": rules.index(found.reviewers[0]),
        "level": _LEVELS[issue.severity],
        "rank": float(issue.confidence),
        "message": {"text": f"{issue.message}{suggestion}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(issue.file)},
                    "region": {"startLine": max(issue.line, 1)},
                }
            }
        ],
        "partialFingerprints": {_FINGERPRINT: found.fingerprint},
        "properties": {"confidence": issue.confidence, "reviewers": list(found.reviewers)},
    }
    if is_dismissed:
        result["suppressions"] = [{"kind": "external", "status": "accepted"}]
    return result


def _field(value: object, name: str) -> object:
    return cast("dict[str, object]", value).get(name) if isinstance(value, dict) else None


def _items(value: object, name: str) -> list[object]:
    items = _field(value, name)
    return cast("list[object]", items) if isinstance(items, list) else []
