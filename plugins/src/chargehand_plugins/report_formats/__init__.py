"""Reports as Word documents and as PDF, for `chargehand report`."""

from importlib.util import find_spec

from chargehand.plugins import Registry


def register(registry: Registry) -> None:
    """Add each format whose library is installed."""
    if find_spec("docx"):
        registry.report_format("docx", f"{__name__}.docx:docx")
    if find_spec("weasyprint"):
        registry.report_format("pdf", f"{__name__}.pdf:pdf")
