"""The rule for formulas: present on the page, however the LaTeX is written."""

from dataclasses import dataclass
from types import ModuleType

from rapidfuzz import fuzz

from llm_ocr.evaluation.olmocr_bench.fuzzy_search import Excerpt
from llm_ocr.evaluation.olmocr_bench.page_view import PageView
from llm_ocr.evaluation.olmocr_bench.rules import PASSED, RuleResult, RuleVerdict, failure
from llm_ocr.messages import how_to_install

# If a formula on the page can't be rendered and its LaTeX is this similar, the test is skipped.
UNDECIDED_SIMILARITY = 0.5
NO_RENDERER = "matplotlib is required to render formulas for comparison: " + how_to_install(
    "notebooks"
)


@dataclass(frozen=True)
class MathRule:
    """The page has this formula, or one that contains it: as the same LaTeX, or rendered with the
    same glyphs in the same positions."""

    math: str
    dollars: bool = True

    def check(self, page: PageView) -> RuleResult:
        formulas = page.formulas(self.dollars)
        if not formulas:
            return failure("there is no formula on the page", self.math)
        if any(_collapse_spaces(formula) == _collapse_spaces(self.math) for formula in formulas):
            return PASSED
        formulas.sort(key=lambda formula: -fuzz.ratio(formula, self.math))
        renderer = _load_renderer()
        if renderer is None:
            return self._skipped_result(NO_RENDERER, formulas[0])
        try:
            wanted = renderer.render_formula(self.math)
        except renderer.CannotRenderError:
            return self._skipped_result(f"mathtext can't render {self.math}", formulas[0])
        not_rendered = ""
        for formula in formulas:
            try:
                if renderer.contains(renderer.render_formula(formula), wanted):
                    return PASSED
            except renderer.CannotRenderError:
                if (
                    not not_rendered
                    and fuzz.ratio(formula, self.math) >= 100 * UNDECIDED_SIMILARITY
                ):
                    not_rendered = formula
        if not_rendered:
            return self._skipped_result(f"mathtext can't render {not_rendered}", not_rendered)
        return failure(
            "no formula on the page looks like it", self.math, self._excerpt(formulas[0])
        )

    def _skipped_result(self, reason: str, nearest: str) -> RuleResult:
        return RuleResult(RuleVerdict.SKIPPED, reason, self.math, (self._excerpt(nearest),))

    def _excerpt(self, formula: str) -> Excerpt:
        return Excerpt("", formula, "", fuzz.ratio(formula, self.math) / 100)


def _collapse_spaces(formula: str) -> str:
    return " ".join(formula.split())


def _load_renderer() -> ModuleType | None:
    try:
        from llm_ocr.evaluation.olmocr_bench import formula_rendering
    except ModuleNotFoundError:
        return None
    return formula_rendering
