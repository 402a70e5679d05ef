from types import SimpleNamespace

import pytest

from graphprism.ops.forms import Forms
from graphprism.ops.table_sum import reference


def test_kernels_are_taken_where_they_are_and_take_the_case():
    forms = Forms(reference)
    assert forms["reference"] is reference
    forms["triton"] = pytest
    assert forms.choose(None, lambda kernels: kernels is pytest) is pytest
    assert forms.choose(None, lambda kernels: False) is reference
    assert forms.choose("reference", lambda kernels: True) is reference
    del forms["triton"]
    assert forms.choose(None, lambda kernels: True) is reference


@pytest.mark.parametrize(
    ("version", "taken"), [("3.4.0", True), ("3.10.1+git0", True), ("4.0.0", True), ("3.3.1", False)]
)
def test_kernels_need_a_recent_triton(version, taken):
    forms = Forms(reference)
    forms.add_kernels(SimpleNamespace(triton=SimpleNamespace(__version__=version)))
    assert ("triton" in forms) is taken


def test_an_unknown_form_is_an_error():
    with pytest.raises(ValueError, match=r"`impl` must be one of \[.*'reference'.*\] on this machine, got 'fast'"):
        Forms(reference).choose("fast", lambda kernels: True)
