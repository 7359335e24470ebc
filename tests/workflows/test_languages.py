"""Requests in any language: none is refused for how it is written."""

import asyncio

from chargehand.contracts import SessionRequest
from tests.scripted_model import Script, subtask
from tests.workflows.conftest import OpenEnvironment

GOALS = (
    *("Which ferry left late in May?", "List every repair of the Harald."),
    *("Ποιο πλοίο άργησε τον Μάιο;", "Κατάγραψε όλες τις επισκευές του Χάραλντ."),
    *("五月份哪艘渡轮晚点了？", "列出哈拉尔号的所有维修记录。"),
    *("5月に遅れたフェリーはどれですか。", "ハラルド号の修理をすべて挙げてください。"),
    *("5월에 어느 여객선이 늦게 떠났습니까?", "하랄호의 모든 수리를 나열하십시오."),
    *("Какой паром опоздал в мае?", "Перечислите все ремонты «Харальда»."),
    *("أي عبّارة تأخرت في شهر مايو؟", "اذكر جميع إصلاحات العبّارة هارالد."),
    *("איזו מעבורת איחרה בחודש מאי?", "רשום את כל התיקונים של המעבורת."),
    *("मई में कौन सी नौका देर से चली?", "हैराल्ड की सभी मरम्मतों की सूची बनाओ।"),
    *("เรือข้ามฟากลำไหนออกช้าในเดือนพฤษภาคม", "ระบุการซ่อมแซมทั้งหมดของเรือฮารัลด์"),
)
"""Two in each of ten languages and scripts."""


async def test_goals_in_ten_scripts_run_through(environment: OpenEnvironment) -> None:
    """A goal that is planned as it is written is carried out once, and so is each of many at the same time."""
    script = Script()
    for goal in GOALS:
        script = script.plan(subtask("T1", instruction=goal), subtask("T2", instruction=f"{goal} 2025"), goal=goal)

    async with environment(script) as opened:
        requests = [SessionRequest(goal=goal, review="never") for goal in GOALS]
        reports = await asyncio.gather(*map(opened.run, requests))

    assert [report.stop_reason for report in reports] == ["completed"] * len(GOALS)
    assert [[record.state for record in report.subtasks] for report in reports] == [["success"] * 2] * len(GOALS)
