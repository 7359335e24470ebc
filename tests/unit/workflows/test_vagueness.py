"""Instructions that fit any task."""

import pytest

from workflows.rules.vagueness import is_vague

VAGUE = (
    "Analyze the data.",
    "Analyse the data carefully and thoroughly.",
    "Look into the documents and summarize the relevant information.",
    "Research the topic in detail.",
    "Please review all available materials.",
    "Find information about the subject.",
    "Analysiere die Daten.",
    "Bitte prüfe alle Dokumente gründlich.",
    "Analysez les données.",
    "Analyse les données en détail.",
    "Analiza los datos.",
    "Analizza i dati.",
    "Analise os dados.",
    "Analyseer de gegevens grondig.",
    "Przeanalizuj wszystkie dane.",
    "Проанализируйте данные.",
    "Tüm verileri analiz et.",
    "حلل جميع البيانات بعناية",
    "데이터를 분석하세요",
    "请仔细分析这些数据。",
    "データを詳しく分析してください。",
)
CLEAR = (
    "Analyze the data on rents for 2024.",
    "Analyze churn by region.",
    "Summarize lease.md.",
    "Review the warranty clause.",
    "Who runs the port?",
    "Find out how many employees the company has.",
    "Read the contract and quote the notice period.",
    "Look into part 3 of the ferry line.",
    "Describe what Nordwerk sells.",
    "Explain the inflation of last year.",
    "Find all errors in the documents.",
    "Check the documents for contradictions.",
    "Analysiere die Mieten nach Stadtteil.",
    "Wie hoch sind die Kosten?",
    "Prüfe die Kündigungsfrist im Vertrag.",
    "Résume le bail.",
    "Analysez les loyers par quartier.",
    "Analiza las ventas por región.",
    "Analizza le vendite per regione.",
    "Analise as vendas por região.",
    "Analyseer de huren per wijk.",
    "Przeanalizuj sprzedaż według regionów.",
    "Проанализируйте продажи по регионам.",
    "Bölgelere göre satışları analiz et.",
    "حلل المبيعات حسب المنطقة",
    "지역별 매출을 분석하세요",
    "分析各地区的销售额。",
    "地域別の売上を分析してください。",
    "วิเคราะห์ยอดขายตามภูมิภาค",
)


@pytest.mark.parametrize("instruction", VAGUE)
def test_an_instruction_that_fits_any_task_is_vague(instruction: str) -> None:
    """It names neither an object nor what a good answer contains."""
    assert is_vague(instruction, has_inputs=False)


@pytest.mark.parametrize("instruction", CLEAR)
def test_an_instruction_that_names_something_is_not(instruction: str) -> None:
    """A name, a figure, a measure or a question is enough."""
    assert not is_vague(instruction, has_inputs=False)


def test_what_a_subtask_depends_on_is_an_object() -> None:
    """An instruction may point to the outcomes that it is given."""
    assert not is_vague("Summarize all results in detail.", has_inputs=True)
    assert is_vague("Do it.", has_inputs=True)
