"""One owner: in each generation a virtual device is on one host, and nobody listens to an older generation."""

from __future__ import annotations

from chaos.checkers.verdict import Evidence, Verdict, verdict


def one_owner(evidence: Evidence) -> Verdict:
    """Of worlds as they were formed, and of answers by the generation that gave them."""
    problems: list[str] = []
    newest, devices = 0, 0
    for event in evidence.chaos:
        if event.kind == "generation":
            generation, owners = event["generation"], event["owners"]
            if generation <= newest:
                problems.append(f"generation {generation} was formed after generation {newest}")
            if devices and len(owners) != devices:
                problems.append(f"generation {generation} has {len(owners)} virtual devices, of {devices} before")
            strangers = {owner for owner in owners if owner} - event["executors"].keys()
            problems += [f"generation {generation} has devices on {host}, which has no executor" for host in strangers]
            newest, devices = max(newest, generation), len(owners)
        elif event.kind in ("read", "replay") and event["generation"] != newest:
            problems.append(f"a message of generation {event['generation']} was accepted in generation {newest}")
    formed = evidence.chaos.of("generation")
    if not formed:
        problems.append("no world was formed")
    return verdict("one owner", problems, f"{len(formed)} generations of {devices} virtual devices")
