import pytest
import torch

from graphprism.training.lockstep.captured import Captured


def test_on_a_cpu_it_is_the_function():
    state, seen = torch.zeros(2), []

    def work():
        seen.append(state.add_(1).clone())

    captured = Captured(work, [state])
    for _ in range(3):
        captured()
    assert [each.tolist() for each in seen] == [[1, 1], [2, 2], [3, 3]]


@pytest.mark.gpu
def test_on_a_gpu_it_is_recorded_once_and_the_state_is_that_of_the_calls():
    state, calls = torch.zeros(2, device="cuda"), []

    def work():
        calls.append(1)
        state.add_(1)

    captured = Captured(work, [state])
    for count in range(1, 6):
        captured()
        assert state.tolist() == [count, count]
    assert len(calls) == 4  # three to warm up and one that is recorded
