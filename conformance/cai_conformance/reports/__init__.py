"""Reports: the verdicts of one run as a table, JSON lines, Markdown or JUnit.

A report tells what the judges found; it judges nothing, opens no file and reads no clock.
"""

from cai_conformance.reports.formats import Format, default_format
from cai_conformance.reports.jsonlines import render_jsonlines
from cai_conformance.reports.junit import render_junit
from cai_conformance.reports.markdown import render_markdown
from cai_conformance.reports.schema import report_schema
from cai_conformance.reports.table import render_table

__all__ = [
    "Format",
    "default_format",
    "render_jsonlines",
    "render_junit",
    "render_markdown",
    "render_table",
    "report_schema",
]
