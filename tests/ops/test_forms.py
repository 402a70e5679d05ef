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


def test_an_unknown_form_is_an_error():
    with pytest.raises(ValueError, match=r"`impl` must be one of \[.*'reference'.*\] on this machine, got 'fast'"):
        Forms(reference).choose("fast", lambda kernels: True)
