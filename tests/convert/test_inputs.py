"""What `to_mrs` knows of the inputs of convolutions, and what it asks for."""

import pytest
import torch
from torch.nn import BatchNorm1d, Linear, ReLU, Sequential
from torch_geometric.nn import GCN, GINEConv, MessagePassing

import graphprism as gp

X, EDGES = torch.rand(4, 5), torch.tensor([[0, 1, 2, 3, 1], [1, 0, 3, 2, 2]])


class Own(MessagePassing):
    def __init__(self) -> None:
        super().__init__()
        self.lin = Linear(5, 5)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        return self.propagate(edge_index, x=x)

    def message(self, x_j: torch.Tensor) -> torch.Tensor:
        return self.lin(x_j)


@pytest.mark.parametrize("edge_dim", [3, None])
def test_gine_conv_needs_no_example(edge_dim: int | None) -> None:
    torch.manual_seed(0)
    mlp = Sequential(Linear(5, 8), BatchNorm1d(8), ReLU(), Linear(8, 2))
    plain = torch.nn.ModuleList([GINEConv(mlp, edge_dim=edge_dim)]).eval()
    attr = torch.rand(5, edge_dim or 5)
    mrs = gp.to_mrs(plain[0], "degree")
    assert torch.allclose(mrs(X, EDGES, attr), plain[0](X, EDGES, attr), atol=1e-6)


def test_mrs_model_lists_convolutions_on_one_line_each() -> None:
    model = torch.nn.ModuleDict({"first": GINEConv(Sequential(Linear(5, 8), ReLU()), edge_dim=3)})
    lines = str(gp.to_mrs(model, "degree")).splitlines()
    assert lines[2].strip() == "first: GINEConv"


def test_unknown_input_says_what_an_example_is() -> None:
    with pytest.raises(ValueError, match=r"give `example`, the arguments of a call of the model"):
        gp.to_mrs(Own(), "degree")
    mrs = gp.to_mrs(Own(), "degree", example=(X, EDGES))
    assert mrs(X, EDGES).shape == (4, 5)


def test_an_attribute_that_the_call_lacks_is_named():
    model = gp.to_mrs(GCN(8, 8, 2), "degree * attr(bond, 4)")
    with pytest.raises(ValueError, match="must have an attribute `bond`"):
        model(torch.randn(3, 8), torch.tensor([[0, 1], [1, 2]]))
