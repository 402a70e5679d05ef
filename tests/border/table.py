"""Bad inputs, one line each: what is called, and a part of the message that must come.

The names of the calls are those of `tests.border.namespace`. Under `FORWARD` stand the arguments of a forward pass,
which is tried on every layer of `LAYERS`; the other tables are whole calls.
"""

from __future__ import annotations

from collections.abc import Iterator

LAYERS = ("gcn", "sage", "gat", "gated", "gin", "mrs", "dir_gcn", "dir_sage", "gnn")

FORWARD = """
x[0], e, t                          => `x` must have shape
x[0, 0], e, t                       => `x` must have shape
x[None, None], e, t                 => `x` must have shape
x.long(), e, t                      => `x` must hold floating-point numbers of 16 to 64 bits, got torch.int64
x > 0, e, t                         => `x` must hold floating-point numbers of 16 to 64 bits, got torch.bool
x.to(torch.complex64), e, t         => `x` must hold floating-point numbers of 16 to 64 bits, got torch.complex64
None, e, t                          => `x` must be
x.tolist(), e, t                    => `x` must be
x.numpy(), e, t                     => `x` must be
"x", e, t                           => `x` must be
3, e, t                             => `x` must be
(x,), e, t                          => `x` must be
(x, None), e, t                     => `x` must be
(x, x, x), e, t                     => `x` must be
x.to("meta"), e, t                  => must be on the same device
x, None, t                          => `edge_index` must be
x, e.tolist(), t                    => `edge_index` must be
x, e.numpy(), t                     => `edge_index` must be
x, 3, t                             => `edge_index` must be
x, e[0], t                          => `edge_index` must have shape [2, E]
x, e.t(), t                         => `edge_index` must have shape [2, E]
x, e[None], t                       => `edge_index` must have shape [2, E]
x, e.float(), t                     => `edge_index` must hold integers, got torch.float32
x, e > 0, t                         => `edge_index` must hold integers, got torch.bool
x, e.to("meta"), t                  => must be on the same device
x, e + 1, t                         => must hold numbers in [0, 5), got 5
x, e - 1, t                         => must hold numbers in [0, 5), got -1
x, e + 2**40, t                     => must hold numbers in [0, 5), got 1099511627
x, e, None                          => `edge_type` must be given
x, e, t.tolist()                    => `edge_type` must be
x, e, 1                             => `edge_type` must be
x, e, t[:3]                         => `edge_type` must have shape [4]
x, e, t[:, None, None]              => `edge_type` must have shape
x, e, t[0]                          => `edge_type` must have shape
x, e, t.float()                     => `edge_type` must hold integers, got torch.float32
x, e, t > 0                         => `edge_type` must hold integers, got torch.bool
x, e, t + 1                         => `edge_type` must hold numbers in [0, 3), got 3
x, e, t - 1                         => `edge_type` must hold numbers in [0, 3), got -1
x, e, t.to("meta")                  => must be on the same device
x, e, s[:, :2]                      => `edge_type` must have shape [4, 3]
x, e, s[:3]                         => `edge_type` must have shape [4, 3]
x, e, s.long()                      => `edge_type` must hold floating-point numbers
x, e, t, w.tolist()                 => `edge_weight` must be
x, e, t, 1.0                        => `edge_weight` must be
x, e, t, w[:3]                      => `edge_weight` must have shape [4]
x, e, t, w[:, None]                 => `edge_weight` must have shape [4]
x, e, t, w.long()                   => `edge_weight` must hold floating-point numbers
x, e, t, w.to("meta")               => must be on the same device
x, adj, t                           => must be None with a `RelationalAdj`
x, adj, None, w                     => must be None with a `RelationalAdj`
x, adj_2                            => `adj` must have 3 relations, got 2
x, adj_7                            => `adj` must join 5 to 5 nodes
x[:3], adj                          => `adj` must join 3 to 3 nodes
x, adj.to("meta")                   => must be on the same device
"""

CALLS = """
nn.MRSGCNConv(8, 4)(x[:, :5], e, t)                           => `x` must have shape [5, 8]
nn.MRSSAGEConv(8, 4)(x[:, :5], e, t)                          => `x` must have 8 channels
nn.MRSGATConv(8, 4)(x[:, :5], e, t)                           => `x` must have 8 channels
nn.MRSGatedGCNConv(8, 4)(x[:, :5], e, t)                      => `x` must have 8 channels
gin(x[:, :5], e, t)                                           => `x` must have 8 channels
dir_gcn(x[:, :5], e, t)                                       => `x` must have shape [5, 8]
dir_sage(x[:, :5], e, t)                                      => `x` must have 8 channels
gnn(x[:, :5], e, t)                                           => `x` must have 8 channels
nn.MRSGCNConv(8, 4)(torch.cat([x, x], 1), e, t)               => `x` must have shape [5, 8], got [5, 16]
nn.MRSGATConv(8, 4)(torch.cat([x, x], 1), e, t)               => `x` must have 8 channels, got 16
nn.MRSGatedGCNConv(8, 4)(torch.cat([x, x], 1), e, t)          => `x` must have 8 channels, got 16
gin(torch.cat([x, x], 1), e, t)                               => `x` must have 8 channels, got 16
nn.MRSGCNConv(8, 4)(x.double(), e, t)                         => `x` must be torch.float32
nn.MRSSAGEConv(8, 4)(x.double(), e, t)                        => `x` must be torch.float32
nn.MRSGATConv(8, 4)(x.double(), e, t)                         => `x` must be torch.float32
nn.MRSGatedGCNConv(8, 4)(x.double(), e, t)                    => `x` must be torch.float32
gin(x.double(), e, t)                                         => `x` must be torch.float32
dir_gcn(x.double(), e, t)                                     => `x` must be torch.float32
dir_sage(x.double(), e, t)                                    => `x` must be torch.float32
gnn(x.double(), e, t)                                         => `x` must be torch.float32
nn.MRSGCNConv(8, 4).double()(x, e, t)                         => `x` must be torch.float64
nn.MRSSAGEConv(8, 4).double()(x, e, t)                        => `x` must be torch.float64
nn.MRSGATConv(8, 4).double()(x, e, t)                         => `x` must be torch.float64
nn.MRSGatedGCNConv(8, 4).double()(x, e, t)                    => `x` must be torch.float64
nn.MRSGCNConv(8, 4)(x.half(), e, t)                           => `x` must be torch.float32
nn.MRSGATConv(8, 4)(x.bfloat16(), e, t)                       => `x` must be torch.float32
nn.MRSGATConv(8, 4)(x[None], e, t)                            => `x` must have shape
nn.MRSGatedGCNConv(8, 4)(x[None], e, t)                       => `x` must have shape
mrs(x[None], e, t)                                            => `x` must have shape
dir_gcn((x, x), e, t)                                         => `x` must be a torch.Tensor, got tuple
dir_sage((x, x), e, t)                                        => `x` must be a torch.Tensor, got tuple
nn.MRSSAGEConv((8, 6), 4)((x, x), e, t)                       => `x[1]` must have 6 channels
nn.MRSGATConv((8, 6), 4)((x, x), e, t)                        => `x[1]` must have 6 channels
nn.MRSGatedGCNConv((8, 6), 4)((x, x), e, t)                   => `x[1]` must have 6 channels
nn.MRSSAGEConv((6, 8), 4)((x, x), e, t)                       => `x[0]` must have 6 channels
nn.MRSGATConv((6, 8), 4)((x, x), e, t)                        => `x[0]` must have 6 channels
gin((x, x[:, :5]), e, t)                                      => `x[1]` must have 8 channels
nn.MRSSAGEConv((8, 8), 4)((x, x.double()), e, t)              => `x[1]` must be torch.float32
nn.MRSGATConv((8, 8), 4)((x, x.double()), e, t)               => `x[1]` must be torch.float32
nn.MRSGATConv((8, 8), 4)((x, x[:3]), e, t)                    => `edge_index[1]` must hold numbers in [0, 3), got 4
nn.MRSSAGEConv((8, 8), 4)((x[:3], x), e, t)                   => `edge_index[0]` must hold numbers in [0, 3), got 3
nn.MRSGCNConv(8, 4)((x, x[:3]), e % 3, t)                     => needs as many sources as targets
gat_e(x, e, t)                                                => `edge_attr` must be given
gat_e(x, e, t, edge_attr=a[:3])                               => `edge_attr` must have shape [4, 6]
gat_e(x, e, t, edge_attr=a[:1])                               => `edge_attr` must have shape [4, 6]
gat_e(x, e, t, edge_attr=torch.cat([a, a]))                   => `edge_attr` must have shape [4, 6]
gat_e(x, e, t, edge_attr=a[:, :2])                            => `edge_attr` must have shape [4, 6]
gat_e(x, e, t, edge_attr=a[0])                                => `edge_attr` must have shape [4, 6]
gat_e(x, e, t, edge_attr=a[None])                             => `edge_attr` must have shape [4, 6]
gat_e(x, e, t, edge_attr=a.long())                            => `edge_attr` must hold floating-point numbers
gat_e(x, e, t, edge_attr=a.double())                          => `edge_attr` must be torch.float32
gat_e(x, e, t, edge_attr=a.tolist())                          => `edge_attr` must be a torch.Tensor
gat_e(x, e, t, edge_attr=a.to("meta"))                        => must be on the same device
gat_e(x, e, s, edge_attr=a[:1])                               => `edge_attr` must have shape [4, 6]
gat_e(x, adj, edge_attr=a[:1])                                => `edge_attr` must have shape [4, 6]
nn.MRSGATConv(8, 4)(x, e, t, edge_attr=a)                     => `edge_attr` must be None
gated_e(x, e, t)                                              => `edge_attr` must be given
gated_e(x, e, t, edge_attr=a[:3])                             => `edge_attr` must have shape [4, 6]
gated_e(x, e, t, edge_attr=a[:1])                             => `edge_attr` must have shape [4, 6]
gated_e(x, e, t, edge_attr=torch.cat([a, a]))                 => `edge_attr` must have shape [4, 6]
gated_e(x, e, t, edge_attr=a[:, :2])                          => `edge_attr` must have shape [4, 6]
gated_e(x, e, t, edge_attr=a[0])                              => `edge_attr` must have shape [4, 6]
gated_e(x, e, t, edge_attr=a.long())                          => `edge_attr` must hold floating-point numbers
gated_e(x, e, t, edge_attr=a.double())                        => `edge_attr` must be torch.float32
gated_e(x, e, t, edge_attr=a.tolist())                        => `edge_attr` must be a torch.Tensor
gated_e(x, e, s, edge_attr=a[:1])                             => `edge_attr` must have shape [4, 6]
nn.MRSGatedGCNConv(8, 4)(x, e, t, edge_attr=a)                => `edge_attr` must be None
mrs(x, e, t, edge_attr=torch.cat([a, a]))                     => `edge_attr` must have shape [4, D]
mrs(x, e, t, edge_attr=a[:1])                                 => `edge_attr` must have shape [4, D]
mrs(x, e, t, edge_attr=a[0])                                  => `edge_attr` must have shape [4, D]
mrs(x, e, t, edge_attr=a.tolist())                            => `edge_attr` must be a torch.Tensor
mrs(x, e, t, edge_attr=a.to("meta"))                          => must be on the same device
nn.MRSGATConv(8, 4)(x, e, t, -w)                              => must not be negative
nn.MRSGCNConv(0, 4)                                           => `in_channels` must be at least 1
nn.MRSGCNConv(-2, 4)                                          => `in_channels` must be at least 1
nn.MRSGCNConv(2.5, 4)                                         => `in_channels` must be
nn.MRSGCNConv("8", 4)                                         => `in_channels` must be
nn.MRSGCNConv(None, 4)                                        => `in_channels` must be
nn.MRSGCNConv((8, 8), 4)                                      => `in_channels` must be
nn.MRSGCNConv(8, 0)                                           => `out_channels` must be at least 1
nn.MRSGCNConv(8, -1)                                          => `out_channels` must be at least 1
nn.MRSGCNConv(8, 4.0)                                         => `out_channels` must be
nn.MRSGCNConv(8, None)                                        => `out_channels` must be
nn.MRSGCNConv(8, "4")                                         => `out_channels` must be
nn.MRSGCNConv(8, 4, num_relations=0)                          => `num_relations` must be at least 1
nn.MRSGCNConv(8, 4, num_relations=-3)                         => `num_relations` must be at least 1
nn.MRSGCNConv(8, 4, num_relations=2.5)                        => `num_relations` must be
nn.MRSGCNConv(8, 4, num_relations=None)                       => `num_relations` must be
nn.MRSGCNConv(8, 4, num_relations="3")                        => `num_relations` must be
nn.MRSGCNConv(8, 4, num_relations=True)                       => `num_relations` must be
nn.MRSGCNConv(8, 4, normalize="sym")                          => `normalize` must be
nn.MRSGCNConv(8, 4, normalize=3)                              => `normalize` must be
nn.MRSSAGEConv(0, 4)                                          => `in_channels` must be at least 1
nn.MRSSAGEConv((8, 0), 4)                                     => `in_channels` must be
nn.MRSSAGEConv((8, 8, 8), 4)                                  => `in_channels` must be
nn.MRSSAGEConv((8,), 4)                                       => `in_channels` must be
nn.MRSSAGEConv("8", 4)                                        => `in_channels` must be
nn.MRSSAGEConv(8, 0)                                          => `out_channels` must be at least 1
nn.MRSSAGEConv(8, 2.5)                                        => `out_channels` must be
nn.MRSSAGEConv(8, 4, num_relations=2.5)                       => `num_relations` must be
nn.MRSSAGEConv(8, 4, num_relations=0)                         => `num_relations` must be at least 1
nn.MRSSAGEConv(8, 4, aggr="max")                              => `aggr` must be
nn.MRSSAGEConv(8, 4, aggr=None)                               => `aggr` must be
nn.MRSSAGEConv(8, 4, aggr=["mean"])                           => `aggr` must be
nn.MRSGATConv(0, 4)                                           => `in_channels` must be at least 1
nn.MRSGATConv((8, 0), 4)                                      => `in_channels` must be
nn.MRSGATConv((8, 8, 8), 4)                                   => `in_channels` must be
nn.MRSGATConv(8, 0)                                           => `out_channels` must be at least 1
nn.MRSGATConv(8, 2.5)                                         => `out_channels` must be
nn.MRSGATConv(8, -4)                                          => `out_channels` must be at least 1
nn.MRSGATConv(8, 4, heads=0)                                  => `heads` must be at least 1
nn.MRSGATConv(8, 4, heads=1.5)                                => `heads` must be
nn.MRSGATConv(8, 4, heads=None)                               => `heads` must be
nn.MRSGATConv(8, 4, num_relations=2.5)                        => `num_relations` must be
nn.MRSGATConv(8, 4, num_relations=0)                          => `num_relations` must be at least 1
nn.MRSGATConv(8, 4, dropout=2)                                => `dropout` must be in [0, 1]
nn.MRSGATConv(8, 4, dropout=-0.1)                             => `dropout` must be in [0, 1]
nn.MRSGATConv(8, 4, dropout="half")                           => `dropout` must be
nn.MRSGATConv(8, 4, dropout=float("nan"))                     => `dropout` must be in [0, 1]
nn.MRSGATConv(8, 4, dropout=None)                             => `dropout` must be
nn.MRSGATConv(8, 4, negative_slope="x")                       => `negative_slope` must be
nn.MRSGATConv(8, 4, negative_slope=float("nan"))              => `negative_slope` must be
nn.MRSGATConv(8, 4, edge_dim=0)                               => `edge_dim` must be
nn.MRSGATConv(8, 4, edge_dim=-3)                              => `edge_dim` must be
nn.MRSGATConv(8, 4, edge_dim=2.5)                             => `edge_dim` must be
nn.MRSGatedGCNConv(0, 4)                                      => `in_channels` must be at least 1
nn.MRSGatedGCNConv((8, 0), 4)                                 => `in_channels` must be
nn.MRSGatedGCNConv(2.5, 4)                                    => `in_channels` must be
nn.MRSGatedGCNConv(8, 0)                                      => `out_channels` must be at least 1
nn.MRSGatedGCNConv(8, 2.5)                                    => `out_channels` must be
nn.MRSGatedGCNConv(8, None)                                   => `out_channels` must be
nn.MRSGatedGCNConv(8, 4, num_relations=2.5)                   => `num_relations` must be
nn.MRSGatedGCNConv(8, 4, num_relations=0)                     => `num_relations` must be at least 1
nn.MRSGatedGCNConv(8, 4, edge_dim=0)                          => `edge_dim` must be
nn.MRSGatedGCNConv(8, 4, edge_dim=-3)                         => `edge_dim` must be
nn.MRSGatedGCNConv(8, 4, edge_dim=2.5)                        => `edge_dim` must be
nn.MRSGatedGCNConv(8, 4, eps=-1.0)                            => `eps` must be
nn.MRSGatedGCNConv(8, 4, eps=None)                            => `eps` must be
nn.MRSGatedGCNConv(8, 4, eps=float("nan"))                    => `eps` must be
nn.MRSGINConv(MLP([8, 4]), start="independent")               => `nn` must be a function that makes a module
nn.MRSGINConv(None)                                           => `nn` must be a module or a function that makes one
nn.MRSGINConv(8)                                              => `nn` must be a module or a function that makes one
nn.MRSGINConv(lambda: 3)                                      => `nn` must be a module or a function that makes one
nn.MRSGINConv(lambda: None)                                   => `nn` must be a module or a function that makes one
nn.MRSGINConv(net, start="apart")                             => `start` must be one of
nn.MRSGINConv(net, decay=None)                                => `decay` must be
nn.MRSGINConv(torch.nn.ReLU)                                  => `nn` must begin with a linear map
nn.MRSGCNConv(8, 4, start=1)                                  => `start` must be one of
nn.MRSGCNConv(8, 4, start=None)                               => `start` must be one of
nn.MRSGCNConv(8, 4, decay=-1)                                 => `decay` must be at least 0
nn.MRSGCNConv(8, 4, decay="1")                                => `decay` must be
nn.MRSGCNConv(8, 4, decay=float("nan"))                       => `decay` must be
nn.MRSGATConv(8, 4, start="own")                              => `start` must be one of
nn.MRSSAGEConv(8, 4, decay=None)                              => `decay` must be
nn.MRSGatedGCNConv(8, 4, start="own")                         => `start` must be one of
nn.MRSConv(Message, decay=-2)                                 => `decay` must be
training.Run(start="own")                                     => `start` must be one of
training.Run(decay=-1)                                        => `decay` must be
training.Run(decay=float("inf"))                              => `decay` must be
nn.MRSGINConv(net, num_relations=0)                           => `num_relations` must be at least 1
nn.MRSGINConv(net, num_relations=2.5)                         => `num_relations` must be
nn.MRSGINConv(net, num_relations=None)                        => `num_relations` must be
nn.MRSGINConv(net, eps=None)                                  => `eps` must be
nn.MRSGINConv(net, eps="0")                                   => `eps` must be
nn.MRSGINConv(net, eps=float("nan"))                          => `eps` must be
nn.MRSConv(MLP([8, 4]))                                       => `message` must be a function that makes a module
nn.MRSConv(None)                                              => `message` must be a function that makes a module
nn.MRSConv(lambda: "x")                                       => `message` must be a function that makes a module
nn.MRSConv(Message, num_relations=0)                          => `num_relations` must be at least 1
nn.MRSConv(Message, num_relations=1.0)                        => `num_relations` must be
nn.MRSConv(Message, aggr="no such")                           => `aggr` must be
nn.MRSConv(Message, aggr=None)                                => `aggr` must be
nn.MRSConv(Message, aggr=3)                                   => `aggr` must be
nn.MRSConv(Message, combine=3)                                => `combine` must be
nn.MRSConv(Message, combine="sum")                            => `combine` must be
nn.DirConv(nn.MRSGCNConv(8, 4))                               => `factory` must be a function that makes a layer
nn.DirConv(None)                                              => `factory` must be a function that makes a layer
nn.DirConv(lambda: 3)                                         => `factory` must be a function that makes a layer
nn.DirConv(lambda: torch.nn.Linear(8, 4))                     => `factory` must be a function that makes a layer
nn.DirConv(make_gcn, alpha=2)                                 => `alpha` must be in [0, 1]
nn.DirConv(make_gcn, alpha=-0.5)                              => `alpha` must be in [0, 1]
nn.DirConv(make_gcn, alpha=None)                              => `alpha` must be
nn.DirConv(make_gcn, alpha="half")                            => `alpha` must be
nn.DirConv(make_gcn, alpha=float("nan"))                      => `alpha` must be in [0, 1]
nn.DirConv(make_gcn, root_weight=8)                           => `root_weight` must be
nn.DirConv(make_gcn, root_weight=(8,))                        => `root_weight` must be
nn.DirConv(make_gcn, root_weight=(8, 0))                      => `root_weight` must be
nn.DirConv(make_gcn, root_weight=True)                        => `root_weight` must be
nn.RelationalWeight(8, 4, 0)                                  => `num_relations` must be at least 1
nn.RelationalWeight(8, 4, 3, init="orthogonal")               => `init` must be
nn.GNN("mrs-gcm", 8, 2, 2)                                    => `conv` must be
nn.GNN(None, 8, 2, 2)                                         => `conv` must be
nn.GNN(3, 8, 2, 2)                                            => `conv` must be
nn.GNN(lambda width: 3, 8, 2, 2)                              => `conv` must be
nn.GNN("gcn", 0, 2, 2)                                        => `hidden_channels` must be at least 1
nn.GNN("gcn", -8, 2, 2)                                       => `hidden_channels` must be at least 1
nn.GNN("gcn", 8.0, 2, 2)                                      => `hidden_channels` must be
nn.GNN("gcn", None, 2, 2)                                     => `hidden_channels` must be
nn.GNN("gcn", 8, 0, 2)                                        => `out_channels` must be at least 1
nn.GNN("gcn", 8, 2.5, 2)                                      => `out_channels` must be
nn.GNN("gcn", 8, None, 2)                                     => `out_channels` must be
nn.GNN("gcn", 8, 2, 0)                                        => `num_layers` must be at least 1
nn.GNN("gcn", 8, 2, 1.5)                                      => `num_layers` must be
nn.GNN("gcn", 8, 2, None)                                     => `num_layers` must be
nn.GNN("gcn", 8, 2, "2")                                      => `num_layers` must be
nn.GNN("gcn", 8, 2, 2, in_channels=0)                         => `in_channels` must be
nn.GNN("gcn", 8, 2, 2, in_channels=-2)                        => `in_channels` must be
nn.GNN("gcn", 8, 2, 2, in_channels=2.5)                       => `in_channels` must be
nn.GNN("mrs-gcn", 8, 2, 2, num_relations=0)                   => `num_relations` must be at least 1
nn.GNN("mrs-gcn", 8, 2, 2, num_relations=2.5)                 => `num_relations` must be
nn.GNN("gcn", 8, 2, 2, num_node_types=0)                      => `num_node_types` must be
nn.GNN("gcn", 8, 2, 2, num_node_types=-1)                     => `num_node_types` must be
nn.GNN("gcn", 8, 2, 2, num_node_types=2.5)                    => `num_node_types` must be
nn.GNN("gcn", 8, 2, 2, num_node_types=[])                     => `num_node_types` must be
nn.GNN("gcn", 8, 2, 2, num_node_types=[3, 0])                 => `num_node_types` must be
nn.GNN("gcn", 8, 2, 2, num_node_types="9")                    => `num_node_types` must be
nn.GNN("gated-gcn", 8, 2, 2, num_edge_types=0)                => `num_edge_types` must be
nn.GNN("gated-gcn", 8, 2, 2, num_edge_types=[2, -1])          => `num_edge_types` must be
nn.GNN("gcn", 8, 2, 2, pe_channels=8)                         => `pe_channels` must be
nn.GNN("gcn", 8, 2, 2, pe_channels=-1)                        => `pe_channels` must be
nn.GNN("gcn", 8, 2, 2, pe_channels=1.5)                       => `pe_channels` must be
nn.GNN("gcn", 8, 2, 2, jk="sum")                              => `jk` must be
nn.GNN("gcn", 8, 2, 2, norm="no such")                        => `norm` must be
nn.GNN("gcn", 8, 2, 2, norm=3)                                => `norm` must be
nn.GNN("gcn", 8, 2, 2, dropout=2)                             => `dropout` must be in [0, 1)
nn.GNN("gcn", 8, 2, 2, dropout=1.0)                           => `dropout` must be in [0, 1)
nn.GNN("gcn", 8, 2, 2, dropout=-0.5)                          => `dropout` must be in [0, 1)
nn.GNN("gcn", 8, 2, 2, dropout="half")                        => `dropout` must be
nn.GNN("dir-gcn", 8, 2, 2, alpha=2)                           => `alpha` must be in [0, 1]
nn.GNN("gcn", 8, 2, 2, alpha=None)                            => `alpha` must be
nn.GNN("gcn", 8, 2, 2, readout="no such")                     => `readout` must be
nn.GNN("gcn", 8, 2, 2, readout=3)                             => `readout` must be
nn.GNN("gcn", 8, 2, 2, encode=False, num_node_types=3)        => must be None and 0 without an encoder
gnn(x, e, t, pe=x)                                            => `pe` must have 0 channels
gnn_pe(x, e, t)                                               => `pe` must have 2 channels
gnn_pe(x, e, t, pe=x)                                         => `pe` must have 2 channels
gnn_pe(x, e, t, pe=x[:3, :2])                                 => `pe` must have shape [5, 2]
gnn_pe(x, e, t, pe=x[0, :2])                                  => `pe` must have shape [5, 2]
gnn_pe(x, e, t, pe=[1, 2])                                    => `pe` must be a torch.Tensor
gnn_types(x, e, t)                                            => `x` must hold one integer type in each row
gnn_types(node, e, t)                                         => `x` must hold numbers in [0, 3), got 4
gnn_types(node - 1, e, t)                                     => `x` must hold numbers in [0, 3), got -1
gnn_types(torch.stack([node, node], 1), e, t)                 => `x` must hold one integer type in each row
gnn_types(node.tolist(), e, t)                                => `x` must be a torch.Tensor
gnn_types(node > 0, e, t)                                     => `x` must hold one integer type in each row
gnn_columns(torch.stack([node % 3, node], 1), e, t)           => `x` must hold
gnn_columns(node, e, t)                                       => `x` must hold 2 integer types in each row
gnn_edges(x, e, t)                                            => `edge_attr` must hold one integer type
gnn_edges(x, e, t, edge_attr=t + 5)                           => `edge_attr` must hold numbers in [0, 4), got 7
gnn_edges(x, e, t, edge_attr=t[:2])                           => `edge_attr` must have 4 rows
gnn_edges(x, e, t, edge_attr=w)                               => `edge_attr` must hold one integer type
gnn_sum(x, e, t, batch=b[:3])                                 => `batch` must have shape [5]
gnn_sum(x, e, t, batch=b - 1)                                 => `batch` must hold numbers that are not negative, got -1
gnn_sum(x, e, t, batch=b.float())                             => `batch` must hold integers
gnn_sum(x, e, t, batch=b.tolist())                            => `batch` must be a torch.Tensor
gnn_sum(x, e, t, batch=b[:, None])                            => `batch` must have shape [5]
gnn(x, e, t, generator=3)                                     => `generator` must be
nn.GNN("pyg-rgcn", 8, 2, 2, in_channels=8)(x, e, t, w)        => `edge_weight` must be None
nn.GNN("pyg-gcn", 8, 2, 2, in_channels=8)(x, e + 1)           => must hold numbers in [0, 5), got 5
nn.GNN("pyg-gcn", 8, 2, 2, in_channels=8)(x, e[0])            => `edge_index` must have shape [2, E]
nn.GNN("pyg-rgcn", 8, 2, 2, in_channels=8)(x, e)              => `edge_type` must be given
nn.GNN("pyg-rgcn", 8, 2, 2, in_channels=8)(x, e, t[:2])       => `edge_type` must have shape [4]
nn.GNN("pyg-rgcn", 8, 2, 2, in_channels=8)(x, e, t + 1)       => `edge_type` must hold numbers in [0, 3), got 3
"""

ADJ = """
ops.RelationalAdj(None, num_nodes=5)                          => `edge_index` must be a torch.Tensor
ops.RelationalAdj(e.tolist(), num_nodes=5)                    => `edge_index` must be a torch.Tensor
ops.RelationalAdj(e[0], num_nodes=5)                          => `edge_index` must have shape [2, E]
ops.RelationalAdj(e.float(), num_nodes=5)                     => `edge_index` must hold integers
ops.RelationalAdj(e.bool(), num_nodes=5)                      => `edge_index` must hold integers
ops.RelationalAdj(e, num_nodes=4)                             => must hold numbers in [0, 4), got 4
ops.RelationalAdj(e, num_nodes=0)                             => must hold numbers in [0, 0)
ops.RelationalAdj(-e, num_nodes=5)                            => must hold numbers in [0, 5), got -
ops.RelationalAdj(e, num_nodes=None)                          => `num_nodes` must be
ops.RelationalAdj(e, num_nodes=-5)                            => `num_nodes` must be at least 0
ops.RelationalAdj(e, num_nodes=5.0)                           => `num_nodes` must be
ops.RelationalAdj(e, num_nodes="5")                           => `num_nodes` must be
ops.RelationalAdj(e, num_nodes=True)                          => `num_nodes` must be
ops.RelationalAdj(e, num_nodes=(5,))                          => `num_nodes` must be
ops.RelationalAdj(e, num_nodes=(5, 5, 5))                     => `num_nodes` must be
ops.RelationalAdj(e, num_nodes=(5, None))                     => `num_nodes` must be
ops.RelationalAdj(e, num_nodes=(5, -1))                       => `num_nodes` must be
ops.RelationalAdj(e, num_nodes=(4, 5.0))                      => `num_nodes` must be
ops.RelationalAdj(e, num_nodes=(3, 5))                        => `edge_index[0]` must hold numbers in [0, 3), got 3
ops.RelationalAdj(e, num_nodes=(4, 4))                        => `edge_index[1]` must hold numbers in [0, 4), got 4
ops.RelationalAdj(e, t, num_nodes=5)                          => `num_relations` must be given
ops.RelationalAdj(e, t, num_relations=2, num_nodes=5)         => `edge_type` must hold numbers in [0, 2), got 2
ops.RelationalAdj(e, t - 1, num_relations=3, num_nodes=5)     => `edge_type` must hold numbers in [0, 3), got -1
ops.RelationalAdj(e, t, num_relations=0, num_nodes=5)         => `num_relations` must be at least 1
ops.RelationalAdj(e, t, num_relations=2.5, num_nodes=5)       => `num_relations` must be
ops.RelationalAdj(e, t, num_relations="3", num_nodes=5)       => `num_relations` must be
ops.RelationalAdj(e, num_relations=3, num_nodes=5)            => `edge_type` must be given
ops.RelationalAdj(e, t.tolist(), num_relations=3, num_nodes=5)=> `edge_type` must be a torch.Tensor
ops.RelationalAdj(e, t[:3], num_relations=3, num_nodes=5)     => `edge_type` must have shape [4]
ops.RelationalAdj(e, t.float(), num_relations=3, num_nodes=5) => `edge_type` must hold integers
ops.RelationalAdj(e, s, num_relations=2, num_nodes=5)         => `edge_type` must have shape [4, 2]
ops.RelationalAdj(e, s[:2], num_nodes=5)                      => `edge_type` must have shape [4, 3]
ops.RelationalAdj(e, s.long(), num_nodes=5)                   => `edge_type` must hold floating-point numbers
ops.RelationalAdj(e, s / 0 * 0, num_nodes=5)                  => `edge_type` must not hold NaN
ops.RelationalAdj(e, s[None], num_relations=3, num_nodes=5)   => `edge_type` must have shape
ops.RelationalAdj(e, s[:, :0], num_nodes=5)                   => `num_relations` must be at least 1
ops.RelationalAdj(e, edge_weight=w[:3], num_nodes=5)          => `edge_weight` must have shape [4]
ops.RelationalAdj(e, edge_weight=w.long(), num_nodes=5)       => `edge_weight` must hold floating-point numbers
ops.RelationalAdj(e, edge_weight=w.tolist(), num_nodes=5)     => `edge_weight` must be a torch.Tensor
ops.RelationalAdj(e, edge_weight=w / 0 * 0, num_nodes=5)      => `edge_weight` must not hold NaN
ops.RelationalAdj(e, edge_weight=w.to("meta"), num_nodes=5)   => must be on the same device
adj.with_weight(w[:3])                                        => `edge_weight` must have shape [4]
adj.with_weight(1.0)                                          => `edge_weight` must be a torch.Tensor
adj.normalized("no such")                                     => `norm` must be one of
adj.normalized(None)                                          => `norm` must be one of
adj.normalized(["sym"])                                       => `norm` must be one of
adj.normalized("sym", torch.int64)                            => `dtype` must be
adj.normalized("sym", "float32")                              => `dtype` must be
bipartite.normalized("sym")                                   => needs as many sources as targets
adj.to("no such")                                             => `device` must be
adj.to(None)                                                  => `device` must be
adj.scores                                                    => `scores` must
"""

OPS = """
ops.relational_linear(x, adj, mat[:2])                        => `weight` must have shape [3, F_in, F_out]
ops.relational_linear(x, adj, mat[0])                         => `weight` must have shape [3, F_in, F_out]
ops.relational_linear(x, adj, None)                           => `weight` must be a torch.Tensor
ops.relational_linear(x, adj, mat.double())                   => `x` must be torch.float64
ops.relational_linear(x[:3], adj, mat)                        => `x` must have shape [5, 8]
ops.relational_linear(x[:, :5], adj, mat)                     => `x` must have shape [5, 8]
ops.relational_linear(x[0], adj, mat)                         => `x` must have shape [5, 8]
ops.relational_linear(x.long(), adj, mat)                     => `x` must hold floating-point numbers
ops.relational_linear(None, adj, mat)                         => `x` must be a torch.Tensor
ops.relational_linear(x, e, mat)                              => `adj` must be
ops.relational_linear(x, None, mat)                           => `adj` must be
ops.relational_linear(x, adj, mat, impl="fast")               => `impl` must be one of
ops.relational_aggregate(x[:3], adj)                          => `x` must have shape [5, F]
ops.relational_aggregate(x[0], adj)                           => `x` must have shape [5, F]
ops.relational_aggregate(x.long(), adj)                       => `x` must hold floating-point numbers
ops.relational_aggregate(x, e)                                => `adj` must be
ops.relational_aggregate(None, adj)                           => `x` must be a torch.Tensor
ops.relational_aggregate(x, adj, impl="fast")                 => `impl` must be one of
ops.relational_sum(x, adj)                                    => `h` must have shape [5, 3, F]
ops.relational_sum(h[:, :2], adj)                             => `h` must have shape [5, 3, F]
ops.relational_sum(h, adj, w[:3])                             => `weight` must have shape [4]
ops.relational_sum(h, adj, 1.0)                               => `weight` must be a torch.Tensor
ops.relational_sum(h.long(), adj)                             => `h` must hold floating-point numbers
ops.relational_sum(h, None)                                   => `adj` must be
ops.relational_transform(x[:, :5], mat)                       => `x` must have 8 channels
ops.relational_transform(x, mat[0])                           => `weight` must have shape [R, F_in, F_out]
ops.relational_transform(x, None)                             => `weight` must be a torch.Tensor
ops.relational_transform(x.double(), mat)                     => `x` must be torch.float32
ops.entry_sum(x, adj)                                         => `rows` must have shape [4, F]
ops.entry_sum(x[0], adj)                                      => `rows` must have shape [4, F]
ops.entry_sum(None, adj)                                      => `rows` must be a torch.Tensor
ops.entry_sum(a, e)                                           => `adj` must be
ops.edge_softmax(w, adj)                                      => `logit` must have shape [4, H]
ops.edge_softmax(x, adj)                                      => `logit` must have shape [4, H]
ops.edge_softmax(None, adj)                                   => `logit` must be a torch.Tensor
ops.edge_softmax(a.long(), adj)                               => `logit` must hold floating-point numbers
ops.edge_softmax(a, adj.with_weight(-w))                      => must not be negative
ops.edge_softmax(a, None)                                     => `adj` must be
ops.at_senders(x[:3], adj)                                    => `h` must have
ops.at_senders(None, adj)                                     => `h` must be a torch.Tensor
ops.at_senders(h[:, :2], adj)                                 => `h` must have
ops.at_senders(x, None)                                       => `adj` must be
ops.at_receivers(x[:3], adj)                                  => `h` must have
ops.at_receivers(h[:, :2], adj)                               => `h` must have
ops.at_receivers(x[0], adj)                                   => `h` must have
ops.index_sum(a, t - 1, 3)                                    => `index` must hold numbers in [0, 3), got -1
ops.index_sum(a, t, 2)                                        => `index` must hold numbers in [0, 2), got 2
ops.index_sum(a, t[:3], 3)                                    => `index` must have shape [4]
ops.index_sum(a, t.float(), 3)                                => `index` must hold integers
ops.index_sum(a, t, -1)                                       => `size` must be at least 0
ops.index_sum(a, t, 3.0)                                      => `size` must be
inner.csr_sum(ptr, t, None, x[:2])                              => `col` must hold numbers in [0, 2), got 2
inner.csr_sum(ptr, t - 1, None, x)                              => `col` must hold numbers in [0, 5), got -1
inner.csr_sum(ptr + 1, t, None, x)                              => `rowptr` must
inner.csr_sum(ptr.flip(0), t, None, x)                          => `rowptr` must
inner.csr_sum(ptr.float(), t, None, x)                          => `rowptr` must hold integers
inner.csr_sum(ptr, t.float(), None, x)                          => `col` must hold integers
inner.csr_sum(ptr, t, w[:3], x)                                 => `value` must have shape [4]
inner.csr_sum(ptr, t, None, x[0])                               => `dense` must have shape [N, F]
inner.csr_sum(ptr, t, None, None)                               => `dense` must be a torch.Tensor
ops.edge_norm(e, (5, 5), "no such")                           => `norm` must be one of
ops.edge_norm(e, (5, 5), None)                                => `norm` must be one of
ops.edge_norm(e, (4, 4), "sym")                               => must hold numbers in [0, 4), got 4
ops.edge_norm(-e, (5, 5), "mean")                             => must hold numbers in [0, 5), got -
ops.edge_norm(e, 5, "sym")                                    => `size` must be
ops.edge_norm(e, (5,), "sym")                                 => `size` must be
ops.edge_norm(e, (5, 6), "sym")                               => needs as many sources as targets
ops.edge_norm(e[0], (5, 5), "sym")                            => `edge_index` must have shape [2, E]
ops.edge_norm(e.float(), (5, 5), "sym")                       => `edge_index` must hold integers
ops.edge_norm(e, (5, 5), "sym", w[:3])                        => `edge_weight` must have shape [4]
ops.edge_norm(e, (5, 5), "sym", w.long())                     => `edge_weight` must hold floating-point numbers
ops.edge_norm(e, (5, 5), "sym", None, torch.int32)            => `dtype` must be
inner.type_rows(node, x[:3])                                    => `types` must hold numbers in [0, 3), got 4
inner.type_rows(node - 1, x)                                    => `types` must hold numbers in [0, 5), got -1
inner.type_rows(x, x)                                           => `types` must hold integers
inner.type_rows(node, x[0])                                     => `weight` must have shape [T, F]
inner.type_sums(x, node[:3], 5)                                 => `types` must have shape [5]
inner.type_sums(x, x[:, 0], 5)                                  => `types` must hold integers
inner.type_sums(x[0], node, 5)                                  => `rows` must have shape [N, F]
inner.type_sums(x, node, -1)                                    => `num_types` must be at least 0
inner.type_sums(x, node, 2.5)                                   => `num_types` must be
inner.select_graphs(adj, gptr, torch.tensor([2]))               => `graphs` must hold numbers in [0, 1), got 2
inner.select_graphs(adj, gptr, torch.tensor([-1]))              => `graphs` must hold numbers in [0, 1), got -1
inner.select_graphs(adj, gptr, torch.tensor([0.5]))             => `graphs` must hold integers
inner.select_graphs(adj, gptr + 3, torch.tensor([0]))           => `ptr` must
inner.select_graphs(adj, gptr.float(), torch.tensor([0]))       => `ptr` must hold integers
inner.select_graphs(adj, gptr[0], torch.tensor([0]))            => `ptr` must have shape
inner.select_graphs(soft, gptr, torch.tensor([0]))              => `adj` must have one type per edge
inner.select_graphs(None, gptr, torch.tensor([0]))              => `adj` must be a RelationalAdj
inner.BlockDiagonal(adj, gptr + 3)                              => `ptr` must
inner.BlockDiagonal(adj, gptr.float())                          => `ptr` must hold integers
inner.BlockDiagonal(None, gptr)                                 => `adj` must be a RelationalAdj
inner.BlockDiagonal(adj, gptr).batches(node[:2], [1, 1])        => `graphs` must hold numbers in [0, 1), got 1
inner.BlockDiagonal(adj, gptr).batches(node[:1], [2])           => `graphs` must have shape [2]
inner.BlockDiagonal(adj, gptr).batches(w[:1], [1])              => `graphs` must hold integers
inner.BlockDiagonal(adj, gptr).batches(node[:1], [2, -1])       => `lengths` must
"""

BORDER = """
transforms.SplitEdges("no such")                              => must have one of the orderings
transforms.SplitEdges(None)                                   => `split` must be
transforms.SplitEdges(3)                                      => `split` must be
transforms.SplitEdges(t[0])                                   => `split` must have shape
transforms.SplitEdges("")                                     => must have one of the orderings
transforms.SplitEdges("degree,,ppr")                          => must have one of the orderings
transforms.SplitEdges()(None)                                 => `data` must be a torch_geometric Data
transforms.SplitEdges()(x)                                    => `data` must be a torch_geometric Data
transforms.SplitEdges()(HeteroData())                         => `data` must have at least one edge type
transforms.SplitEdges(overwrite=1)                            => `overwrite` must be True or False
transforms.SplitEdges()(graph(e, edge_type=t))                => `data.edge_type` must not be there yet
transforms.SplitEdges()(Data(x=x))                            => `data.edge_index` must be given
transforms.SplitEdges()(graph(e[0]))                          => `data.edge_index` must have shape [2, E]
transforms.SplitEdges()(graph(e.float()))                     => `data.edge_index` must hold integers
transforms.SplitEdges()(graph(e + 1))                         => must hold numbers in [0, 5), got 5
transforms.SplitEdges()(graph(e - 1))                         => must hold numbers in [0, 5), got -1
transforms.SplitEdges()(graph(e, num_nodes=-5))               => `data.num_nodes` must be at least 0
transforms.SplitEdges()(graph(e, num_nodes=5.0))              => `data.num_nodes` must be
transforms.SplitEdges()(graph(e, edge_weight=w / 0 * 0))      => `data.edge_weight` must not hold NaN
transforms.SplitEdges()(graph(e, edge_weight=w[:3]))          => `data.edge_weight` must have shape [4]
transforms.SplitEdges(t[:3])(graph(e))                        => must have shape [4]
transforms.SplitEdges(t - 1)(graph(e))                        => must hold numbers that are not negative
transforms.SplitEdges(s / 0 * 0)(graph(e))                    => must hold finite scores
transforms.SplitEdges("features")(graph(e))                   => must have an attribute `x`
transforms.SplitEdges(lambda graph: None)(graph(e))           => must be a torch.Tensor
transforms.RelationalNorm("no such")                          => `norm` must be one of
transforms.RelationalNorm(None)                               => `norm` must be one of
transforms.RelationalNorm(["sym"])                            => `norm` must be one of
transforms.RelationalNorm()(None)                             => `data` must be a torch_geometric Data
transforms.RelationalNorm()(graph(e + 1))                     => must hold numbers in [0, 5), got 5
transforms.RelationalNorm()(graph(e, edge_weight=w[:3]))      => `data.edge_weight` must have shape [4]
transforms.RelationalNorm()(graph(e, edge_weight=w.long()))   => `data.edge_weight` must hold floating-point numbers
transforms.RelationalNorm()(graph(e, edge_weight=w / 0 * 0))  => `data.edge_weight` must not hold NaN
transforms.RelationalNorm()(graph(e, edge_weight=[1.0] * 4))  => `data.edge_weight` must be a torch.Tensor
transforms.LaplacianPE(0)                                     => `k` must be at least 1
transforms.LaplacianPE(-3)                                    => `k` must be at least 1
transforms.LaplacianPE(2.5)                                   => `k` must be
transforms.LaplacianPE(None)                                  => `k` must be
transforms.LaplacianPE("8")                                   => `k` must be
transforms.LaplacianPE(8, attr_name=3)                        => `attr_name` must be
transforms.LaplacianPE(8, attr_name="")                       => `attr_name` must be
transforms.LaplacianPE()(None)                                => `data` must be a torch_geometric Data
transforms.LaplacianPE()(Data(x=x))                           => `data.edge_index` must be given
transforms.LaplacianPE()(graph(e + 1))                        => must hold numbers in [0, 5), got 5
transforms.LaplacianPE()(graph(e, num_nodes=20_000))          => must have at most
transforms.LaplacianPE()(graph(e, ptr=gptr - 1))              => `data.ptr` must
transforms.LaplacianPE()(graph(e, ptr=[0, 5]))                => `data.ptr` must
splitting.by_order()                                          => must be given at least one ordering
splitting.by_order("no such")                                 => must be one of
splitting.by_order(3)                                         => must be
splitting.by_order("degree", tolerance=2)                     => `tolerance` must be in [0, 1)
splitting.by_order("degree", tolerance="x")                   => `tolerance` must be
splitting.by_order(x[:, 0] / 0 * 0)(graph(e))                 => must not hold NaN
splitting.by_order(node[:3])(graph(e))                        => must have shape [5]
splitting.by_order(x)(graph(e))                               => must have shape [5]
splitting.by_soft_order("degree", temperature=0)              => `temperature` must be positive and finite
splitting.by_soft_order("degree", temperature=None)           => `temperature` must be
splitting.by_soft_order("degree", temperature="x")            => `temperature` must be
splitting.by_attribute(None)                                  => `name` must be
splitting.by_attribute("a", num_relations=0)                  => `num_relations` must be at least 1
splitting.by_attribute("a", num_relations=2.5)                => `num_relations` must be
splitting.by_attribute("no such")(graph(e))                   => must have an attribute `no such`
splitting.by_attribute("edge_attr")(graph(e, edge_attr=a))    => must have one column
splitting.by_attribute("edge_attr")(graph(e, edge_attr=w))    => must hold whole numbers
splitting.by_attribute("edge_attr", 2)(graph(e, edge_attr=t)) => must hold numbers in [0, 2), got 2
splitting.by_function(None)                                   => `f` must be a function
splitting.by_function(abs, names=["a"], num_relations=2)      => `names` must have one entry for each of 2
splitting.by_function(abs, num_relations=2.5)                 => `num_relations` must be
splitting.by_function(abs, names=3)                           => `names` must be
splitting.orderings.ppr(graph(e), steps=0)                    => `steps` must be at least 1
splitting.orderings.ppr(graph(e), steps=1.5)                  => `steps` must be
splitting.orderings.ppr(graph(e), restart=2)                  => `restart` must be in [0, 1]
splitting.orderings.ppr(graph(e), restart=None)               => `restart` must be
splitting.orderings.degree(graph(e), kind="up")               => `kind` must be one of
splitting.orderings.random(graph(e), seed=1.5)                => `seed` must be
graphprism.certify(None)                                      => `data` must be a graph
graphprism.certify(3)                                         => `data` must be a graph
graphprism.certify("zinc")                                    => `data` must be a graph
graphprism.certify([])                                        => `data` must hold at least one graph
graphprism.certify([3])                                       => `data` must hold graphs
graphprism.certify(graph(e))                                  => must have an `edge_type`
graphprism.certify(graph(e), "no such")                       => must have one of the orderings
graphprism.certify(graph(e + 1), "degree")                    => must hold numbers in [0, 5), got 5
graphprism.certify(graph(e.float()), "degree")                => `edge_index` must hold integers
graphprism.certify(graph(e, num_nodes=-5), "degree")          => `num_nodes` must be at least 0
graphprism.certify(graph(e, num_nodes=5.0), "degree")         => `num_nodes` must be
graphprism.certify(graph(e, edge_type=t[:3]))                 => `edge_type` must have shape [4]
graphprism.certify(graph(e, edge_type=t.float()))             => `edge_type` must hold integers
graphprism.certify(graph(e, edge_type=t - 1))                 => `edge_type` must
graphprism.certify(graph(e, edge_type=t), num_relations=2)    => `edge_type` must hold numbers in [0, 2), got 2
graphprism.certify(graph(e, edge_type=t), num_relations=2.5)  => `num_relations` must be
graphprism.certify(graph(e, edge_type=t), num_relations=0)    => `num_relations` must be at least 1
graphprism.certify(graph(e), "degree", edge_weight=w[:3])     => `edge_weight` must have shape [4]
graphprism.certify(graph(e), "degree", edge_weight=[1.0])     => `edge_weight` must be a torch.Tensor
graphprism.certify(graph(e), "degree", edge_weight=w / 0 * 0) => `edge_weight` must not hold NaN
graphprism.certify(graph(e), "degree", aggregation="no such") => `aggregation` must be one of
graphprism.certify(graph(e), "degree", aggregation=3)         => `aggregation` must be one of
graphprism.certify(graph(e), "degree", tolerance=-1.0)        => `tolerance` must be in [0, 1)
graphprism.certify(graph(e), "degree", tolerance="x")         => `tolerance` must be
graphprism.certify(graph(e), "degree", tolerance=float("nan"))=> `tolerance` must be in [0, 1)
graphprism.compare_splits(graph(e), 3)                        => `splits` must be
graphprism.compare_splits(graph(e), ["degree", "degree"])     => `splits` must have different names
graphprism.compare_splits(graph(e), [])                       => `splits` must
graphprism.inspect_graph(None)                                => `data` must be a graph
graphprism.inspect_graph(graph(e), aggregation="x")           => `aggregation` must be one of
graphprism.collapse(None, data)                               => `model` must be a torch.nn.Module
graphprism.collapse(3, data)                                  => `model` must be a torch.nn.Module
graphprism.collapse(torch.nn.Linear(8, 2), data)              => `model` must
graphprism.collapse(gnn, None)                                => `data` must
graphprism.collapse(gnn, data, layers=["no such"])            => `layers` must name modules
graphprism.collapse(gnn, data, layers=3)                      => `layers` must be
graphprism.collapse(gnn, data, labels=3)                      => `labels` must be
graphprism.collapse(gnn, data, labels=x[:, :2], loss=3)       => `loss` must be
graphprism.collapse(gnn, data, forward=3)                     => `forward` must be
graphprism.CollapseMonitor(every=0)                           => `every` must be at least 1
graphprism.CollapseMonitor(every=1.5)                         => `every` must be
graphprism.rank_one_distance(x[0])                            => `x` must have shape [N, F]
graphprism.rank_one_distance(x.long())                        => `x` must hold floating-point numbers
graphprism.rank_one_distance(None)                            => `x` must be a torch.Tensor
graphprism.rank_one_distance(x, b[:3])                        => `batch` must have shape [5]
graphprism.rank_one_distance(x, b - 1)                        => `batch` must hold numbers that are not negative
graphprism.rank_one_distance(x, b.float())                    => `batch` must hold integers
analysis.effective_rank(None)                                 => `x` must be a torch.Tensor
analysis.numerical_rank(x, relative_tolerance=2)              => `relative_tolerance` must be in [0, 1)
analysis.numerical_rank(x, relative_tolerance="x")            => `relative_tolerance` must be
analysis.dirichlet_energy(x, e + 1)                           => `edge_index` must hold numbers in [0, 5), got 5
analysis.dirichlet_energy(x, e, "no such")                    => `normalization` must be
analysis.dirichlet_energy(x, e, "sym", -w)                    => `edge_weight` must
analysis.dirichlet_energy(x, e, "sym", w[:3])                 => `edge_weight` must have shape [4]
analysis.structural_rank(x[0])                                => `in_degrees` must have shape [N, R]
analysis.structural_rank(x / 0 * 0)                           => `in_degrees` must not hold NaN
analysis.direction_groups(x, tolerance=2)                     => `tolerance` must be in [0, 1)
inner.find_cycle(e, 4)                                     => must hold numbers in [0, 4), got 4
inner.find_cycle(e, 5.0)                                   => `num_nodes` must be
inner.find_cycle(e, -1)                                    => `num_nodes` must be at least 0
inner.root_nodes(e, None)                                  => `num_nodes` must be
analysis.weighted_in_degrees(e, t, 5, 2)                      => `edge_type` must hold numbers in [0, 2), got 2
analysis.weighted_in_degrees(e, t, 5.0, 3)                    => `num_nodes` must be
analysis.weighted_in_degrees(e, t, 5, 2.5)                    => `num_relations` must be
"""

TRAINING = """
training.Run(epochs=1.5)                                      => `epochs` must be
training.Run(epochs=0)                                        => `epochs` must be at least 1
training.Run(epochs="400")                                    => `epochs` must be
training.Run(epochs=None)                                     => `epochs` must be
training.Run(epochs=True)                                     => `epochs` must be
training.Run(layers=0)                                        => `layers` must be at least 1
training.Run(layers=2.5)                                      => `layers` must be
training.Run(layers=None)                                     => `layers` must be
training.Run(layers="4")                                      => `layers` must be
training.Run(width=0)                                         => `width` must be None or at least 1
training.Run(width=2.5)                                       => `width` must be
training.Run(width="64")                                      => `width` must be
training.Run(budget=0)                                        => `budget` must be at least 1
training.Run(budget=1.5)                                      => `budget` must be
training.Run(model="no such")                                 => `model` must be one of
training.Run(model=None)                                      => `model` must be one of
training.Run(model=["gcn"])                                   => `model` must be one of
training.Run(dataset=None)                                    => `dataset` must be
training.Run(dataset=3)                                       => `dataset` must be
training.Run(split=None)                                      => `split` must be
training.train(replace(run, split="no such"), set_)           => must have one of the orderings
training.Run(split=3)                                         => `split` must be
training.Run(residual="yes")                                  => `residual` must be
training.Run(residual=1)                                      => `residual` must be
training.Run(jk="sum")                                        => `jk` must be one of
training.Run(pe=-1)                                           => `pe` must be at least 0
training.Run(pe=1.5)                                          => `pe` must be
training.build_model(replace(run, norm="no such"), set_)      => `norm` must be
training.Run(norm=3)                                          => `norm` must be
training.Run(dropout=2)                                       => `dropout` must be in [0, 1)
training.Run(dropout=1.0)                                     => `dropout` must be in [0, 1)
training.Run(dropout="half")                                  => `dropout` must be
training.Run(dropout=None)                                    => `dropout` must be
training.Run(dropout=float("nan"))                            => `dropout` must be in [0, 1)
training.Run(optimizer="sgd")                                 => `optimizer` must be one of
training.Run(lr=0)                                            => `lr` must be above 0
training.Run(lr=-1e-3)                                        => `lr` must be above 0
training.Run(lr="1e-3")                                       => `lr` must be
training.Run(lr=float("nan"))                                 => `lr` must be
training.Run(lr=float("inf"))                                 => `lr` must be
training.Run(lr=None)                                         => `lr` must be
training.Run(weight_decay=-1.0)                               => `weight_decay` must be at least 0
training.Run(weight_decay="0")                                => `weight_decay` must be
training.Run(weight_decay=float("nan"))                       => `weight_decay` must be
training.Run(clip=-1.0)                                       => `clip` must be at least 0
training.Run(clip=None)                                       => `clip` must be
training.Run(schedule="no such")                              => `schedule` must be one of
training.Run(warmup=-1)                                       => `warmup` must be at least 0
training.Run(warmup=1.5)                                      => `warmup` must be
training.Run(batch_size=0)                                    => `batch_size` must be None or at least 1
training.Run(batch_size=2.5)                                  => `batch_size` must be
training.Run(batch_size="32")                                 => `batch_size` must be
training.Run(seed=-1)                                         => `seed` must be at least 0
training.Run(seed=1.5)                                        => `seed` must be
training.Run(seed=None)                                       => `seed` must be
training.Run(precision="half")                                => `precision` must be one of
training.Run(precision=torch.float32)                         => `precision` must be one of
training.Run(patience=0)                                      => `patience` must be None or at least 1
training.Run(patience=1.5)                                    => `patience` must be
training.Run(fold=-1)                                         => `fold` must be at least 0
training.Run(fold=1.5)                                        => `fold` must be
training.Run(alpha=2)                                         => `alpha` must be in [0, 1]
training.Run(alpha="half")                                    => `alpha` must be
training.Run(alpha=float("nan"))                              => `alpha` must be in [0, 1]
training.Run(normalize="yes")                                 => `normalize` must be
training.Run(undirected=None)                                 => `undirected` must be
training.Run(self_loops=1)                                    => `self_loops` must be
training.Run(row_normalise="no")                              => `row_normalise` must be
training.Run.from_dict({"no such": 1})                        => a run must have only fields of `Run`
training.Run.from_dict(None)                                  => a run must be
training.Run.from_dict([1])                                   => a run must be
training.train(None, set_)                                    => `run` must be a Run
training.train({"epochs": 3}, set_)                           => `run` must be a Run
training.train(run, None)                                     => `dataset` must be a PackedDataset
training.train(run, "zinc")                                   => `dataset` must be a PackedDataset
training.train(run, set_, accelerator="tpu")                  => `accelerator` must be one of
training.train(run, set_, devices=0)                          => `devices` must be at least 1
training.train(run, set_, devices=1.5)                        => `devices` must be
training.train(run, set_, nodes=None)                         => `nodes` must be
training.train(run, set_, folder=3)                           => `folder` must be
training.train(run, set_, on_epoch=3)                         => `on_epoch` must be
training.train_lockstep(None, set_)                           => `runs` must be
training.train_lockstep([3], set_)                            => `runs` must
training.train_lockstep([run], set_, at_once=0)               => `at_once` must be at least 1
training.train_lockstep([run], set_, at_once=1.5)             => `at_once` must be
training.build_model(None, set_)                              => `run` must be a Run
training.build_model(run, None)                               => `dataset` must be a PackedDataset
training.fit_width(0, abs)                                    => `budget` must
training.fit_width(None, abs)                                 => `budget` must
training.fit_width(9, abs, smallest=0)                        => `smallest` must be at least 1
inner.learning_rate(None, 3)                               => `run` must be a Run
inner.epoch_order(0, 0, -1)                                => `n` must be at least 0
inner.epoch_order(0, 0, 2.5)                               => `n` must be
inner.epoch_order(None, 0, 3)                              => `seed` must be
inner.PreparedDataset(None, set_)                          => `run` must be a Run
inner.PreparedDataset(run, None)                           => `dataset` must be a PackedDataset
datasets.load(None)                                           => `name` must be
datasets.load(3)                                              => `name` must be
datasets.molecules(0)                                         => `num_graphs` must be at least 1
datasets.molecules(2.5)                                       => `num_graphs` must be
datasets.molecules(None)                                      => `num_graphs` must be
datasets.molecules(9, seed=1.5)                               => `seed` must be
datasets.molecules(9, seed=-1)                                => `seed` must be
datasets.row_normalise(x[0])                                  => `x` must have shape [N, F]
datasets.row_normalise(None)                                  => `x` must be a torch.Tensor
datasets.row_normalise(x / 0 * 0)                             => `x` must not hold NaN
datasets.read(None)                                           => `path` must be
datasets.read(3)                                              => `path` must be
datasets.save(None, "a.npz")                                  => `dataset` must be a PackedDataset
datasets.save(set_, None)                                     => `path` must be
inner.packed_path(None)                                    => `name` must be
datasets.from_pyg("no such", None)                            => `name` must be one of
datasets.from_pyg(None, None)                                 => `name` must be one of
datasets.from_raw("no such", None)                            => `name` must be one of
datasets.leak_audit(None)                                     => `dataset` must be
datasets.leak_audit(set_)                                     => `dataset` must be one graph
set_.graph(99)                                                => `index` must be in
set_.graph("a")                                               => `index` must be a whole number
set_.graph(1.5)                                               => `index` must be a whole number
set_.subset("no such")                                        => `name` must be one of
set_.batch(torch.tensor([99]))                                => `indices` must hold numbers in
set_.batch(torch.tensor([0.5]))                               => `indices` must hold integers
set_.batch(None)                                              => `indices` must be
io.read_graph(None)                                           => `path` must be
io.read_graph(3)                                              => `path` must be
testing.molecule(0, num_nodes=0)                              => `num_nodes` must be
testing.random_graph(0, 5)                                    => `num_nodes` must be
testing.random_graph(5, -1)                                   => `num_edges` must be
testing.tolerance("float32")                                  => `dtype` must be
testing.tolerance(torch.int64)                                => `dtype` must be
"""

SECOND = """
gcn(x, e, t, edge_weight="w")                                 => `edge_weight` must be
gcn(x, e, t[None])                                            => `edge_type` must have shape
gcn(x.to_sparse(), e, t)                                      => `x` must be
gated(x.to_sparse_csr(), e, t)                                => `x` must be
gin(x.to_sparse_csr(), e, t)                                  => `x` must be
mrs(x.to_sparse_csr(), e, t)                                  => `x` must be
gcn(x, e.to_sparse(), t)                                      => `edge_index` must have shape [5, 5] as a sparse tensor
gcn(x, torch.eye(5).to_sparse_csr(), t)                       => `edge_type` must have shape [5], got [4]
gcn(x, e, s.to(torch.complex64))                              => `edge_type` must hold floating-point numbers
gcn(x, e, t, w.to(torch.complex64))                           => `edge_weight` must hold floating-point numbers
gcn(x[:0], e, t)                                              => must hold numbers in [0, 0)
gcn(x, e.to(torch.uint64), t)                                 => `edge_index` must hold integers
gcn(x, (e, t))                                                => `edge_index` must be
gcn(x, data)                                                  => `edge_index` must be
gat_e(x, e, t, edge_attr="a")                                 => `edge_attr` must be
dir_gcn(x, e[:, :3], t)                                       => `edge_type` must have shape [3]
sage((x, x[:, :4]), e, t)                                     => `x[1]` must have 8 channels
gat((x, x + 1), e, t)                                         => `in_channels` must be a pair
gnn(x, e.int() - 7, t)                                        => must hold numbers in [0, 5), got -7
nn.MRSGCNConv(8, 4)(x.to(torch.float8_e4m3fn), e, t)          => `x` must hold floating-point numbers
nn.MRSGCNConv(8, 4, bias="no")                                => `bias` must be
nn.MRSSAGEConv(8, 4, project="relu")                          => `project` must be
nn.MRSSAGEConv(8, 4, normalize=2)                             => `normalize` must be
nn.MRSSAGEConv(8, 4, root_weight=(8, 4))                      => `root_weight` must be
nn.MRSGATConv(8, 4, concat=None)                              => `concat` must be
nn.MRSGatedGCNConv(8, 4, gate_per_relation=2)                 => `gate_per_relation` must be
nn.MRSGatedGCNConv(8, 4, batch_norm="layer")                  => `batch_norm` must be
nn.MRSGINConv(net, train_eps="yes")                           => `train_eps` must be
nn.MRSGCNConv(float("nan"), 4)                                => `in_channels` must be
nn.MRSGCNConv(8, 4, num_relations=[3])                        => `num_relations` must be
nn.MRSGATConv((8, -2), 4)                                     => `in_channels` must be
nn.GNN("gcn", 8, 2, 2, residual="yes")                        => `residual` must be
nn.GNN("gcn", 8, 2, 2, encode=None)                           => `encode` must be
nn.GNN("gcn", 8, 2, 2, normalize="l2")                        => `normalize` must be
nn.GNN("gcn", 8, 2, 2, jk=["cat"])                            => `jk` must be
nn.GNN("gcn", (8, 8), 2, 2)                                   => `hidden_channels` must be
nn.GNN("gcn", 8, 2, 2, num_node_types={"a": 3})               => `num_node_types` must be
nn.CONVOLUTIONS["gcn"].make(0, 4)                             => `in_channels` must be
nn.CONVOLUTIONS["mrs-gcn"].make(8, 4, num_relations="3")      => `num_relations` must be
nn.CONVOLUTIONS["dir-gcn"].make(8, 4, alpha=7)                => `alpha` must be
gnn_sum(x, e, t, batch=b.to("meta"))                          => must be on the same device
gnn_pe(x, e, t, pe=x[:, :2].to("meta"))                       => must be on the same device
ops.RelationalAdj(e, num_nodes=[5, 5])                        => `num_nodes` must be
ops.RelationalAdj(e, num_nodes=2**70)                         => `num_nodes` must be
ops.RelationalAdj(e, t, num_relations=2**63, num_nodes=5)     => `num_relations` must be
ops.RelationalAdj(e[:, :, None], num_nodes=5)                 => `edge_index` must have shape [2, E]
ops.RelationalAdj(e, num_nodes=torch.tensor([5, 5]))          => `num_nodes` must be
adj.with_weight(w.to("meta"))                                 => must be on the same device
adj.normalized("sym", torch.complex64)                        => `dtype` must be
ops.relational_linear(x.to("meta"), adj, mat)                 => must be on the same device
ops.relational_linear(x, adj, mat, impl=3)                    => `impl` must be one of
ops.relational_aggregate(x, adj, impl=["csr"])                => `impl` must be one of
ops.relational_sum(h, adj, w.long())                          => `weight` must hold floating-point numbers
ops.relational_sum(h[..., None, None], adj)                   => `h` must have shape
ops.entry_sum(a.long(), adj)                                  => `rows` must hold floating-point numbers
ops.edge_softmax(a.to("meta"), adj)                           => must be on the same device
ops.at_senders(x.to("meta"), adj)                             => must be on the same device
ops.index_sum(3, t, 3)                                        => `rows` must be a torch.Tensor
inner.csr_sum(ptr[:0], t, None, x)                              => `rowptr` must
inner.csr_sum(ptr, t, w.double(), x)                            => `value` must be torch.float32
ops.edge_norm(e, ("5", 5), "sym")                             => `size` must be
inner.type_rows(node, None)                                     => `weight` must be a torch.Tensor
inner.type_sums(x, node.to("meta"), 5)                          => must be on the same device
inner.select_graphs(adj, gptr, [0])                             => `graphs` must be a torch.Tensor
inner.select_graphs(adj, [0, 5], torch.tensor([0]))             => `ptr` must be a torch.Tensor
inner.BlockDiagonal(bipartite, gptr)                            => `adj` must have one type per edge
inner.BlockDiagonal(adj, gptr).batches(node[:1], 1)             => `lengths` must
inner.BlockDiagonal(adj, gptr).batches([0], [1])                => `graphs` must be a torch.Tensor
transforms.SplitEdges({"degree": 1})                          => `split` must be
transforms.SplitEdges(lambda graph: t.to("meta"))(graph(e))   => must be on the same device
transforms.SplitEdges()([graph(e)])                           => `data` must be
transforms.SplitEdges("ppr")(graph(e, batch=node))            => every edge must join two nodes of one graph
transforms.RelationalNorm()(graph(e, edge_weight=w[:, None])) => `data.edge_weight` must have shape [4]
transforms.LaplacianPE(float("inf"))                          => `k` must be
transforms.LaplacianPE()(graph(e.tolist()))                   => `data.edge_index` must be
splitting.orderings.bfs(graph(e), root=9)                     => `root` must be
splitting.orderings.bfs(graph(e), root="a")                   => `root` must be
splitting.orderings.eigenvector(graph(e), steps="many")       => `steps` must be
splitting.order_values("degree", None)                        => must
splitting.by_soft_order("degree", temperature=float("inf"))   => `temperature` must be positive and finite
graphprism.certify({"edge_index": e})                         => `data` must
graphprism.certify([graph(e), None], "degree")                => `data` must hold graphs
graphprism.certify(graph(e, batch=b - 1), "degree")           => `batch` must hold numbers
graphprism.collapse(gnn, data, whole="yes")                   => `whole` must be
graphprism.collapse(gnn, data, layers=[])                     => `layers` must
graphprism.CollapseMonitor(every=10, csv=3)                   => `csv` must be
graphprism.CollapseMonitor(measure=3)                         => `measure` must be
graphprism.CollapseMonitor(first_step=-1)                     => `first_step` must be
graphprism.rank_one_distance(x.to(torch.complex64))           => `x` must hold floating-point numbers
analysis.dirichlet_energy(x, e, "sym", w.to("meta"))          => must be on the same device
inner.ergodic_graphs(e, 5, num_graphs=1.5)                 => `num_graphs` must be
inner.independent_pairs(x, b[:3])                          => `batch` must have shape [5]
training.Run(seed=2**70)                                      => `seed` must be
training.Run(lr=True)                                         => `lr` must be
training.train(run, set_, accelerator=None)                   => `accelerator` must be one of
training.train_lockstep(run, set_)                            => `runs` must be
training.load_best(None, run, set_)                           => `folder` must be
inner.lockstep_key(None)                                   => `run` must be
inner.parameters_of(run, set_, 0)                          => `hidden_channels` must be
inner.learning_rate(run, -1)                               => `epoch` must be at least 0
datasets.molecules(True)                                      => `num_graphs` must be
inner.named_folder(3)                                      => `root` must be
set_.batch([0.5])                                             => `indices` must hold integers
set_.to(None)                                                 => `device` must be
"""

TABLES = {"calls": CALLS, "adj": ADJ, "ops": OPS, "border": BORDER, "training": TRAINING, "second": SECOND}


def lines() -> Iterator[tuple[str, str]]:
    """Every call with its fragment."""
    for layer in LAYERS:
        for arguments, fragment in rows(FORWARD):
            yield f"{layer}({arguments})", fragment
    for table in TABLES.values():
        yield from rows(table)


def rows(table: str) -> Iterator[tuple[str, str]]:
    """The lines of one table, cut in two."""
    for line in table.strip().splitlines():
        call, _, fragment = line.rpartition("=>")
        yield call.strip(), fragment.strip()
