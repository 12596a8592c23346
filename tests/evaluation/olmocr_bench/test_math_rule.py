import sys

import pytest

from llm_ocr.evaluation.olmocr_bench.math_rule import MathRule
from llm_ocr.evaluation.olmocr_bench.page_view import PageView
from llm_ocr.evaluation.olmocr_bench.rules import RuleVerdict


def verdict(math: str, markdown: str, **fields: bool) -> RuleVerdict:
    return MathRule(math, **fields).check(PageView(markdown)).verdict


@pytest.mark.parametrize(
    ("math", "markdown"),
    [
        ("a^{2}+b^{2}=c^{2}", "so $a^2 + b^2 = c^2$."),
        (r"e^{i \pi}+1=0", r"Euler: \( e^{i\pi} + 1 = 0 \)"),
        (r"\int_{a}^{b} f(x) d x=F(b)-F(a)", r"\[\int_a^b f(x)\,dx = F(b) - F(a)\]"),
        (r"\frac{a+b}{c}", r"$$\dfrac{a + b}{c}$$"),
        (r"\mathbf{E}=0", r"$\boldsymbol{E} = 0$"),
        (r"\left(\frac{1}{2}\right)", r"$\bigl( \frac{1}{2} \bigr)$"),
        # A formula that is part of another.
        ("x+1", "$y = x + 1$"),
        (r"\begin{x} the same \end{x}", r"\[\begin{x} the same \end{x}\]"),
    ],
)
def test_formulas_that_render_the_same_are_equal(math: str, markdown: str) -> None:
    assert verdict(math, markdown) is RuleVerdict.PASSED


@pytest.mark.parametrize(
    ("math", "markdown"),
    [
        ("a^{2}+b^{2}=c^{2}", "$a2 + b2 = c2$"),
        ("a^{2}", "$a_{2}$"),
        (r"\frac{a}{b}", r"$\frac{b}{a}$"),
        (r"\frac{a}{b}", r"$a / b$"),
        ("x+1", "$x - 1$"),
        ("x+1", "x+1, not marked as a formula"),
        ("x+1", "costs $5 or"),
        (r"\begin{x} any \end{x}", "no formula"),
    ],
)
def test_formulas_that_render_differently_are_not(math: str, markdown: str) -> None:
    assert verdict(math, markdown) is RuleVerdict.FAILED


def test_dollars_can_be_money() -> None:
    assert verdict("x+1", "$x+1$", dollars=False) is RuleVerdict.FAILED
    assert verdict("x+1", r"\(x+1\)", dollars=False) is RuleVerdict.PASSED


def test_unrenderable_formulas_are_undecided() -> None:
    matrix = r"\begin{pmatrix} a & b \end{pmatrix}"
    assert verdict(matrix, r"$\begin{pmatrix}a&b\end{pmatrix}$") is RuleVerdict.SKIPPED
    assert verdict("a & b + c", r"$\begin{x}a & b + c\end{x}$ $z$") is RuleVerdict.SKIPPED
    # What can't be drawn and is nothing like it leaves nothing open.
    assert verdict("x+1", r"$\begin{pmatrix} alpha & beta \end{pmatrix}$") is RuleVerdict.FAILED


def test_missing_renderer_decides_no_formula(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.mathtext", None)
    monkeypatch.delitem(
        sys.modules, "llm_ocr.evaluation.olmocr_bench.formula_rendering", raising=False
    )
    monkeypatch.delattr("llm_ocr.evaluation.olmocr_bench.formula_rendering", raising=False)
    found = MathRule("a^{2}").check(PageView("$a^2$"))
    assert found.verdict is RuleVerdict.SKIPPED
    assert "--extra notebooks" in found.reason
    assert verdict("a^{2}", "$ a^{2} $") is RuleVerdict.PASSED
    assert verdict("a^{2}", "no formula") is RuleVerdict.FAILED


def test_formulas_are_found_between_dollars_where_dollars_are_money_too() -> None:
    markdown = r"It costs \$5, $a^2 + b^2$ of them \$6 each"
    assert verdict("a^2 + b^2", markdown, dollars=False) is RuleVerdict.PASSED
    assert verdict("a^2 + b^2", markdown) is RuleVerdict.PASSED
