"""What a test asks of a formula: that it stands on the page, however its LaTeX is written."""

from dataclasses import dataclass
from types import ModuleType

from rapidfuzz import fuzz

from llm_ocr.evaluation.near import Excerpt
from llm_ocr.evaluation.rules import PASSED, Outcome, Verdict, failed
from llm_ocr.evaluation.said import Said
from llm_ocr.messages import how_to_install

# A formula of the page that can't be drawn leaves a test open if its LaTeX is so much alike.
MAY_BE_IT = 0.5
NO_RENDERER = "needs matplotlib, which draws formulas to compare them: " + how_to_install(
    "notebooks"
)


@dataclass(frozen=True)
class MathRule:
    """The page has this formula, or one that it is a part of: as the same LaTeX, or drawn with the
    same signs in the same places."""

    math: str
    dollars: bool = True

    def judge(self, said: Said) -> Outcome:
        formulas = said.formulas(self.dollars)
        if not formulas:
            return failed("there is no formula on the page", self.math)
        if any(_bare(one) == _bare(self.math) for one in formulas):
            return PASSED
        formulas.sort(key=lambda one: -fuzz.ratio(one, self.math))
        renderer = _renderer()
        if renderer is None:
            return self._open(NO_RENDERER, formulas[0])
        try:
            wanted = renderer.drawn(self.math)
        except renderer.CannotDrawError:
            return self._open(f"mathtext can't draw {self.math}", formulas[0])
        undrawn = ""
        for formula in formulas:
            try:
                if renderer.holds(renderer.drawn(formula), wanted):
                    return PASSED
            except renderer.CannotDrawError:
                if not undrawn and fuzz.ratio(formula, self.math) >= 100 * MAY_BE_IT:
                    undrawn = formula
        if undrawn:
            return self._open(f"mathtext can't draw {undrawn}", undrawn)
        return failed("no formula on the page looks like it", self.math, self._near(formulas[0]))

    def _open(self, why: str, near: str) -> Outcome:
        return Outcome(Verdict.SKIPPED, why, self.math, (self._near(near),))

    def _near(self, formula: str) -> Excerpt:
        return Excerpt("", formula, "", fuzz.ratio(formula, self.math) / 100)


def _bare(formula: str) -> str:
    return " ".join(formula.split())


def _renderer() -> ModuleType | None:
    try:
        from llm_ocr.evaluation import formula_drawing
    except ModuleNotFoundError:
        return None
    return formula_drawing
