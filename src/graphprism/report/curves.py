"""The part of the page that shows loss curves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from graphprism.report.curve_data import SHOWN, curve_data
from graphprism.report.formats import counted
from graphprism.report.markup import Html, tag
from graphprism.report.sections import section
from graphprism.results import RunResult


def curves(runs: Sequence[RunResult]) -> Html | None:
    """Places for the script to draw in and the numbers it draws; None where no run has a history."""
    data = curve_data(runs)
    if not data["panels"]:
        return None
    # A `<` could end the element early; JSON can write it in another way.
    text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    numbers = tag("script", Html(text), type="application/json", id="curve-data")
    without = tag("noscript", tag("p", "The script of this page draws the curves, and your browser does not run it."))
    panels = [_panel(panel, number) for number, panel in enumerate(data["panels"])]
    return section("curves", "Loss curves", tag("p", _explained(data), class_="lead"), without, *panels, numbers)


def _explained(data: dict[str, Any]) -> str:
    thinned = f" Curves are thinned out to at most {data['points']} epochs each." if data["thinned"] else ""
    return (
        "A line is the mean over the seeds of a configuration, its band one standard deviation. Runs that diverged are "
        f"left out of the mean unless all did.{thinned} Point at a line or a name to bring it out; beside a "
        "name stands the best mean validation score."
    )


def _panel(panel: dict[str, Any], number: int) -> Html:
    total = len(panel["curves"])
    best = f", {SHOWN} of them shown at first: the best by validation of each model and split" if total > SHOWN else ""
    chosen = counted(total, "configuration") + best
    heading = tag("h3", panel["dataset"], " ", tag("small", f"{panel['metric']} · {chosen}"))
    return tag("div", heading, class_="panel", data_panel=str(number))
