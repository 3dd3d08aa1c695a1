"""The analysis against JAX: random programs, of which JAX must contradict nothing that the analysis says."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("jax")

import jax
from hypothesis import HealthCheck, Phase, given, seed, settings
from strategies.judge import Count, Program, judge, judge_values
from strategies.programs import programs

CAMPAIGN = int(os.environ.get("SHARDFIX_PROGRAMS", "2000"))
"""Programs of the slow campaign, always the same ones."""
PARTS = 8
"""Tests that share the campaign, so that they can be run side by side."""
quiet = settings(
    deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True, phases=[Phase.generate]
)

pytestmark = pytest.mark.skipif(jax.device_count() != 8, reason="JAX was imported without eight CPU devices")


class Campaign:
    """Judges programs and keeps the score."""

    def __init__(self) -> None:
        self.count = Count()
        self.in_view = Count()
        """The part of the programs all of whose arrays are made in view of the analysis."""
        self.programs = 0

    def judge(self, program: Program) -> None:
        count = judge(program)
        self.count.add(count)
        if "= opaque(" not in str(program):
            self.in_view.add(count)
        self.programs += 1
        if self.programs % 200 == 0:
            jax.clear_caches()
        assert not count.contradictions, "\n".join([*count.contradictions, "", str(program)])

    def close(self) -> None:
        """Say what was known, and that it was worth the while."""
        rejected = sum(self.count.rejections.values())
        print(
            f"{self.programs} programs, {rejected} not accepted to their end; {self.count.maps} runs of maps; {self.count}\n"
            f"of those whose arrays are all made in view: {self.in_view}"
        )
        assert self.count.unjudged <= self.count.maps * 0.02
        assert self.in_view.both >= self.in_view.leaves * 0.8


def test_random_programs() -> None:
    campaign = Campaign()
    quiet_few = settings(quiet, max_examples=100, derandomize=True)
    quiet_few(given(programs())(lambda program: campaign.judge(program)))()
    campaign.close()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_random_programs(part: int) -> None:
    campaign = Campaign()
    share = settings(quiet, max_examples=max(CAMPAIGN // PARTS, 50))
    seed(part)(share(given(programs())(lambda program: campaign.judge(program))))()
    campaign.close()


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_values_of_unchecked_programs(part: int) -> None:
    """What is said not to vary, though JAX does not check it, is equal on all devices when the program runs."""
    compared = 0

    def check(program: Program) -> None:
        nonlocal compared
        count, wrong = judge_values(program)
        compared += count
        assert not wrong, "\n".join([*wrong, "", str(program)])

    share = settings(quiet, max_examples=max(CAMPAIGN // 10 // PARTS, 10))
    seed(part)(share(given(programs(checked=False))(check)))()
    jax.clear_caches()
    print(f"{compared} leaves compared")
    assert compared >= 10
