"""The report of a proof: as data, as text for a terminal, and as one page of HTML with pictures."""

from chaos.report.facts import Report
from chaos.report.page import html
from chaos.report.text import text

__all__ = ["Report", "html", "text"]
