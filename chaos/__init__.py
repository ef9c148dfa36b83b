"""Proof by faults: the catalogue of faults, plans, histories, checkers, ledger and report, all of them pure.

Nothing here starts or kills anything, with two exceptions: `Network` makes hosts on one machine whose cables can be
pulled, and `Disk` a disk that can be full. Who carries out a plan is `elastic.chaos_run`.
"""

from chaos.agenda import Agenda
from chaos.checkers import CHECKERS, Evidence, Verdict
from chaos.copies import Copies
from chaos.cuts import ETCD, ways
from chaos.disk import Disk, DiskError
from chaos.entries import ENTRIES, goodput
from chaos.errors import ChaosError, HistoryError, PlanError
from chaos.faults import FAULTS, Fault, Target
from chaos.history import Event, History, parse_line
from chaos.history import parse as parse_history
from chaos.ledger import Span
from chaos.network import GATEWAY, Network, NetworkError, cannot_delay, missing
from chaos.plan import EMBEDDED, AtTime, Injection, Plan
from chaos.plan_text import dump, parse, settled
from chaos.ready_made import ready_made
from chaos.report import Report, html, text
from chaos.schema import schema
from chaos.shrink import shrink

__all__ = [
    "CHECKERS",
    "EMBEDDED",
    "ENTRIES",
    "ETCD",
    "FAULTS",
    "GATEWAY",
    "Agenda",
    "AtTime",
    "ChaosError",
    "Copies",
    "Disk",
    "DiskError",
    "Event",
    "Evidence",
    "Fault",
    "History",
    "HistoryError",
    "Injection",
    "Network",
    "NetworkError",
    "Plan",
    "PlanError",
    "Report",
    "Span",
    "Target",
    "Verdict",
    "cannot_delay",
    "dump",
    "goodput",
    "html",
    "missing",
    "parse",
    "parse_history",
    "parse_line",
    "ready_made",
    "schema",
    "settled",
    "shrink",
    "text",
    "ways",
]
